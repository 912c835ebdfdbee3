"""One case of a point as the record stores it."""

import statistics
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from benchkit.record.numbers import (
    Amount,
    Count,
    Figure,
    NumBytes,
    NumRanks,
    Offset,
    Position,
    RankNumber,
    Rows,
    Seconds,
)
from benchkit.statistics.estimators import SLOWEST_RANK

if TYPE_CHECKING:
    from benchkit.statistics.intervals import Array

Labels = Mapping[str, str | int | float | None]
"""What sets a case apart inside its job."""


@dataclass(frozen=True)
class ComponentPositions:
    """Positions, in their job, of the cases that time the components of another case in isolation.

    Attributes:
        computation: of the case that only computes; None without one.
        communication: of the case that only communicates; None without one.
    """

    computation: Position | None = None
    communication: Position | None = None


@dataclass(frozen=True, kw_only=True)
class CaseRecord:
    """What a suite says of a case, and its raw samples; docs/record.md explains each key.

    A case that was not timed has no samples.

    Attributes:
        labels: what sets it apart inside its job.
        status: ok, invalid, skipped, unavailable or oom.
        reason: why it is not ok; "" if it is.
        rank: the first rank that said so.
        payload_bytes: message size S in the convention of nccl-tests; see `benchkit.api.case.Work`.
        bus_factor: ratio of bus bandwidth to algorithm bandwidth.
        useful_flops: floating-point operations of the result as it is defined.
        executed_flops: floating-point operations that the ranks execute together.
        wire_bytes: bytes that each rank must send at least.
        baseline: position of the case that this one is compared with.
        is_component: whether it times one component in isolation; left out of rankings.
        unslowed: whether it ran at full speed on ranks that are slowed down.
        components: positions of the cases that time its components.
        ranks: number of ranks that took part, the first ones; None for all.
        details: what the suite reports of the case after timing.
        calls_per_sample: number of calls back to back in one sample; the sample is their mean.
        blocks: number of iterations of each block, in order of time.
        warmup_s: samples of the warm-up, in seconds per call: [rank][iteration].
        steady: whether the warm-up went on until calls got no faster; None if not tried.
        samples_s: all samples, in seconds per call: [rank][iteration].
        start_offsets_s: start of each rank's sample after the first rank's, in seconds:
            [rank][iteration]; None where the clock is not the host's.
        regions_s: by region, the seconds per call spent in it: [rank][iteration].
        disturbance: by counter, how much it grew during the samples: [rank].
        elapsed_s: seconds spent on this case, with resets and barriers.
        stopped_by: what ended the samples: target_rel_ci, max_iterations or max_seconds.
        converged: whether the interval met its target; None without a target.
        estimator: what the time of an iteration is, see `statistics.summary.iteration_times`.
        unchecked: what its timed calls computed without a check; "" if nothing.
    """

    labels: dict[str, str | bool | int | float | None]
    status: str
    reason: str = ""
    rank: RankNumber | None = None
    payload_bytes: NumBytes | None = None
    bus_factor: Amount | None = None
    useful_flops: Amount | None = None
    executed_flops: Amount | None = None
    wire_bytes: NumBytes | None = None
    baseline: Position | None = None
    is_component: bool = False
    unslowed: bool = False
    components: ComponentPositions = ComponentPositions()
    ranks: NumRanks | None = None
    details: dict[str, Any] = field(default_factory=dict)
    calls_per_sample: Count = 1
    blocks: list[Count] = field(default_factory=list)
    warmup_s: Rows = field(default_factory=list)
    steady: bool | None = None
    samples_s: Rows = field(default_factory=list)
    start_offsets_s: list[list[Offset]] | None = None
    regions_s: dict[str, Rows] = field(default_factory=dict)
    disturbance: dict[str, list[Figure]] = field(default_factory=dict)
    elapsed_s: Seconds = 0.0
    stopped_by: str = ""
    converged: bool | None = None
    estimator: str = SLOWEST_RANK
    unchecked: str = ""

    @property
    def num_ranks(self) -> int:
        """Number of ranks that took part."""
        return self.ranks or len(self.samples_s)

    @property
    def typical_s(self) -> float:
        """Median over iterations of the slowest rank's time, without numpy, which agents lack."""
        samples_s = self.samples_s[: self.ranks]
        return float(statistics.median(map(max, zip(*samples_s, strict=True))))

    @cached_property
    def samples(self) -> "Array":
        """`samples_s` as an array, made once: [rank][iteration]."""
        return as_array(self.samples_s)

    @cached_property
    def starts(self) -> "Array | None":
        """`start_offsets_s` as an array, made once: [rank][iteration]; None if not known."""
        return None if self.start_offsets_s is None else as_array(self.start_offsets_s)

    @property
    def samples_taking_part(self) -> "Array":
        """Samples of the ranks that took part: [rank][iteration]."""
        return self.samples[: self.ranks]

    @property
    def starts_taking_part(self) -> "Array | None":
        """Start offsets of the ranks that took part: [rank][iteration]; None if not known."""
        return None if self.starts is None else self.starts[: self.ranks]


def as_array(rows: Rows) -> "Array":
    """Returns rows as an array: [row][column].

    Packing rows takes half as long as numpy takes to read lists of lists.

    Raises:
        ValueError: the rows have different lengths.
    """
    import numpy as np  # Agents have records too, and load no numpy.

    length = len(rows[0]) if rows else 0
    pack = struct.Struct(f"{length}d").pack
    try:
        packed = b"".join(pack(*row) for row in rows)
    except struct.error:
        raise ValueError("rows of different lengths") from None
    return np.frombuffer(packed).reshape(len(rows), length)
