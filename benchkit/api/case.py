"""A case: one labelled thing that is timed inside a job.

Every suite returns a list of cases and nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.errors import Reason
from benchkit.record.naming import format_bytes
from benchkit.statistics import SLOWEST_RANK

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

    from benchkit.api.memory import PeakMemory


PREDICTED_S, IDEAL_S = "predicted_s", "ideal_s"
"""Details: seconds of a step by the suite's cost model; and with a perfectly balanced load."""
TOKENS_PER_CALL, CAUSAL_FLOPS = "tokens_per_call", "causal_flops"
"""Details: tokens of a step, and its useful operations under a causal mask."""
PEAK_TFLOP_PER_S, PEAK_FROM = "peak_tflop_per_s", "peak_from"
"""Details: the peak rate (100 % utilisation), and its source in words."""
MEASURED_PEAK = "best matrix product here"  # PEAK_FROM where no data sheet states the peak rate


CHECK_SHARE = 0.15
"""Largest number of check samples, as a share of the samples of a case."""


def noop(*_: object) -> None:
    """Do nothing; the default of a case's callables."""


Call = Callable[..., Any]
"""Takes prepare(), calls it and then the checked call; returns the result of that."""


Details = Mapping[str, Any]
"""JSON values by name. A list with one entry per rank is per rank."""
SecondsOf = Callable[..., list[list[float]]]


@dataclass(frozen=True)
class Work:
    """Bytes and operations of one call, from which rates are derived; None if not applicable.

    Attributes:
        payload_bytes: message size S in the convention of nccl-tests, in bytes; the buffer of one
            rank for an all-reduce. The algorithm bandwidth is S over the median time.
        bus_factor: ratio of bus bandwidth to algorithm bandwidth, busbw = algbw x bus_factor
            (nccl-tests, PERFORMANCE.md). None on one rank, which has no bandwidth.
        useful_flops: floating-point operations of the result by definition, summed over all ranks;
            2 m n k for the product of matrices [m, k] and [k, n].
        executed_flops: floating-point operations executed, summed over all ranks.
        wire_bytes: lower bound of the bytes that each rank sends.
    """

    payload_bytes: int | None = None
    bus_factor: float | None = None
    useful_flops: float | None = None
    executed_flops: float | None = None
    wire_bytes: int | None = None


@dataclass(frozen=True)
class CallsPerSample:
    """The number of consecutive calls in one sample of a case; by default as configured.

    Attributes:
        number: number of calls; 0 if given by `fill_s` or by the configuration.
        fill_s: seconds to fill with calls; 0 if the number is given.
    """

    number: int = 0
    fill_s: float = 0.0


CONFIGURED, ONE_CALL = CallsPerSample(), CallsPerSample(number=1)


@dataclass(frozen=True)
class Components:
    """The cases that time another case's computation and communication in isolation."""

    computation: Case | None = None
    communication: Case | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """One thing to time: the call, the check of its result, and its description.

    The harness verifies all cases of a job, times them in interleaved blocks, and verifies them
    again. A case may refer to other cases of the same list (`baseline`, `components`), so cases
    compare by identity.

    Attributes:
        step: the timed call. On a CPU it returns when its work is done; on a GPU the work that it
            queues on the current stream is timed.
        labels: distinguish this case inside its job, such as {"strategy": "even"}. A label with the
            name of a key of the suite replaces the value of that key. In any suite, `data_size` is
            a size in MiB, and `comm_backend` the backend of a case with its own (`Rank.group`).
        reset: renews the inputs before each sample, outside the clock.
        verify: checks the result of a call on fresh inputs, which `verify(call)` makes by
            `call(prepare)`; raises InvalidResult with the first wrong index. `prepare()` writes the
            inputs that a call overwrites and poisons its outputs. Before timing, `call` makes the
            step once. After timing it takes samples as the timed ones were taken and prepares their
            last two calls: a step that returns at once, or caches results, is detected. All ranks
            verify together and use `call` equally often; a rank that does not use it makes one such
            call.
        calls: number of consecutive calls in one sample; by default `measure.calls_per_sample`.
        estimator: definition of the time of an iteration, see `statistics.samples.Samples.times`.
        skip: why this case cannot run here, such as "needs 54 GiB, 24 GiB there"; "" if it can.
        regions: names of the regions marked by `step`; each is timed on each rank.
        observe: receives this rank's seconds per call in each of `regions`, after each sample,
            outside the clock.
        details: returns details for the record after timing. A list with one entry per rank is
            shown per rank. From the details named in this module, analysis derives metrics.
        ranks: number of participating ranks, the first ones; None for all. On the other ranks
            `step` does nothing.
        unslowed: whether this case runs at full speed on ranks with a slowdown.
        unavailable: what this machine lacks for this case; "" for nothing.
        is_component: whether it times one component (computation or communication) in isolation;
            such cases are left out of rankings.
        components: the cases that time the components of this one. The share of communication and
            the overlap of this case are computed from them.
        on_host: whether `step` is work of the host, such as reading a file, and is timed by the
            host's clock on a GPU, too.
        includes_launches: whether the time in which the host launches kernels on a GPU counts, as
            in a loop of training steps. Otherwise it is hidden if possible.
        warnings: warnings about this case's metrics for the record, one line each.
        unchecked: the part of the timed calls that `verify` cannot check; "" for none.
    """

    step: Callable[[], object] = noop
    labels: Mapping[str, str | int | float] = field(default_factory=dict)
    reset: Callable[[], None] = noop
    verify: Callable[[Call], None] = noop
    work: Work = field(default_factory=Work)
    calls: CallsPerSample = CONFIGURED
    estimator: str = SLOWEST_RANK
    skip: Reason = ""
    regions: tuple[str, ...] = ()
    observe: Callable[[Mapping[str, float]], None] = noop
    details: Callable[[], Details] = dict
    baseline: Case | None = None
    ranks: int | None = None
    unslowed: bool = False
    unavailable: Reason = ""
    is_component: bool = False
    components: Components = Components()
    on_host: bool = False
    includes_launches: bool = False
    warnings: tuple[str, ...] = ()
    unchecked: str = ""

    def call_once(self, prepare: Callable[[], object] = noop) -> Any:
        """Make one call for `verify`, outside any clock."""
        prepare()
        return self.step()


@dataclass(frozen=True)
class Rank:
    """A suite's view of its rank; torch.distributed is initialized.

    Attributes:
        world_size: number of ranks of the job; `index` is from 0 to world_size - 1.
        sharers: number of ranks that share this rank's memory, itself included; the maximum over
            all hosts, equal on all ranks.
        device: device of the tensors of this rank.
        seed: seed of inputs, equal on all ranks.
        available_bytes: the minimum over all ranks of the free bytes. It is read once, so that all
            ranks decide alike.
        memory: measures the peak of the memory in use, in bytes, since its `reset()`.
        shares: target share of a device in percent: [rank].
        by_mps: whether MPS limits a rank to its share of a GPU, even while the others are idle.
        seconds_of: times calls that all ranks make together, each rank slowed down as configured.
            Takes one callable per call and returns the median seconds of each: [call][rank]. The
            calls are interleaved. For cost models, not for results.
        group: returns the process group of all ranks over a backend such as "gloo", or None for
            "default", the job's own group. All ranks call it together. Raises Unavailable.
        subgroup: returns the process group of the ranks with these numbers, and None on other
            ranks. All ranks call it together. Its timeout is that of the job's own group.
        host_sharers: as `sharers`, of host memory.
        host_available_bytes: as `available_bytes`, of host memory.
        hosts: names of nodes: [rank].
        folder: folder of the point's record.
    """

    index: int
    world_size: int
    sharers: int
    device: torch.device
    seed: int
    available_bytes: float
    memory: PeakMemory
    shares: tuple[float, ...]
    seconds_of: SecondsOf
    group: Callable[[str], dist.ProcessGroup | None]
    subgroup: Callable[[Sequence[int]], dist.ProcessGroup | None]
    by_mps: bool = False
    host_sharers: int = 1
    host_available_bytes: float = math.inf
    hosts: tuple[str, ...] = ()
    folder: Path = Path()

    def memory_shortage(self, needed_bytes: float, host_bytes: float = 0.0) -> Reason:
        """Return why these bytes of every rank do not fit in free memory, or ""."""
        if self.device.type == "cpu":
            return shortage(needed_bytes + host_bytes, self.sharers, self.available_bytes)
        host = self.host_sharers, self.host_available_bytes
        on_device = shortage(needed_bytes, self.sharers, self.available_bytes)
        return on_device or shortage(host_bytes, *host, " of host memory")


def shortage(needed_bytes: float, sharers: int, available_bytes: float, where: str = "") -> Reason:
    if needed_bytes * sharers <= available_bytes:
        return ""
    ranks = f"{sharers} ranks x " if sharers > 1 else ""
    return (
        f"needs {ranks}{format_bytes(needed_bytes)}{where}, {format_bytes(available_bytes)} there"
    )


@dataclass
class CapturableStep:
    """A step that a CUDA graph can replace, both in its timing and in its check.

    With `measure=graph` the harness replaces `call` by the replay of a graph. Thus the check of the
    case must call this step, and its inputs and outputs must stay at fixed addresses.

    Attributes:
        over: backend of its communication, `default` for the job's; "" for none.
        refusal: why it was not captured; "" if `call` replays its graph, None before a capture.
    """

    call: Callable[[], object]
    over: str = ""
    refusal: Reason | None = None

    def __call__(self) -> object:
        return self.call()
