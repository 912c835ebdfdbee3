"""The case: one labelled thing that is timed inside a job. Every suite is a list of these and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchkit.statistics.estimators import SLOWEST_RANK

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

    from benchkit.api.memory import PeakMemory


def noop(*_: object) -> None:
    """Does nothing: the default of a case's callables."""


def no_details() -> Mapping[str, Any]:
    """The default of `details`."""
    return {}


@dataclass(frozen=True)
class Work:
    """What one call moves or computes, from which rates are derived; None where it does not apply.

    payload_bytes: size S of nccl-tests' convention (for all-reduce one rank's buffer).
    bus_factor: busbw = algbw x bus_factor (nccl-tests PERFORMANCE.md); None on one rank, which has no bandwidth.
    useful_flops: floating-point operations of the result as it is defined (2 m n k of a matmul), all ranks together.
    executed_flops: those that the ranks execute together. wire_bytes: what each rank must send at least.
    """

    payload_bytes: int | None = None
    bus_factor: float | None = None
    useful_flops: float | None = None
    executed_flops: float | None = None
    wire_bytes: int | None = None


@dataclass(frozen=True)
class Parts:
    """The names of the cases that time a case's computation and its communication alone; "" where there is none."""

    computation: str = ""
    communication: str = ""


@dataclass(frozen=True)
class Case:
    """One thing to time.

    step: the timed call. reset: renews inputs before each sample, outside the clock. verify: computes on fresh
    inputs and raises InvalidResult with the first wrong index; called on all ranks together, before and after timing.
    labels: what sets this case apart inside its job. skip: why this case cannot run here, e.g. "needs 54 GB, 24 GB
    there". fill_seconds: a sample is as many calls back to back as fill this; 0: as many as `measure` says. estimator:
    what an iteration's time is, as in `statistics.iteration_times`.

    regions: the names that its step marks by `region`, each timed on each rank. observe: told after each sample,
    outside the clock, how long this rank was in each (s per call). details: what the record should say of the case
    after it was timed; a list with one entry per rank is shown per rank. against: the name of the
    case that this one is compared with. ranks: how many ranks take part, None for all; the others' step does nothing.
    unslowed: runs at full speed on ranks that are slowed down (`hardware.slowdown`).

    unavailable: what this machine lacks for this case. name: what other cases of the job refer to this one by. bound:
    this is no way to do it, but a part alone. parts: the bounds that this case is made of, from which its share of
    communication and its overlap are computed. warnings: what readers of its figures must know, for the record.
    """

    step: Callable[[], object] = noop
    labels: Mapping[str, str | int | float] = field(default_factory=dict)
    reset: Callable[[], None] = noop
    verify: Callable[[], None] = noop
    work: Work = field(default_factory=Work)
    fill_seconds: float = 0.0
    estimator: str = SLOWEST_RANK
    skip: str = ""
    regions: tuple[str, ...] = ()
    observe: Callable[[Mapping[str, float]], None] = noop
    details: Callable[[], Mapping[str, Any]] = no_details
    against: str = ""
    ranks: int | None = None
    unslowed: bool = False
    unavailable: str = ""
    name: str = ""
    bound: bool = False
    parts: Parts = Parts()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rank:
    """What a suite may know of the rank it runs on. The process group is up: torch.distributed works.

    available_bytes: free memory where it is scantiest, read once, so that all ranks decide alike. memory: tells the
    most that is in use meanwhile. shares: percent of a device that each rank is to have. seconds_of: of some calls how
    long each takes on each rank, slowed as it is, while all ranks make them together: medians, [call][rank], of turns
    that they take; for cost models, not results. group: the process group of all ranks over a backend ("default": the
    job's own); raises Unavailable.
    """

    index: int
    world_size: int
    sharers: int  # ranks that draw on the same memory as this one
    device: torch.device
    seed: int
    available_bytes: float
    memory: PeakMemory
    shares: tuple[float, ...]
    seconds_of: Callable[..., list[list[float]]]
    group: Callable[[str], dist.ProcessGroup | None]

    def memory_shortage(self, needed_bytes: int) -> str:
        """Why `needed_bytes` on every rank do not fit in this machine's (or GPU's) free memory; "" where they do."""
        there = self.available_bytes
        if needed_bytes * self.sharers <= there:
            return ""
        ranks = f"{self.sharers} ranks x " if self.sharers > 1 else ""
        return f"needs {ranks}{needed_bytes / 1e9:.4g} GB, {there / 1e9:.4g} GB there"
