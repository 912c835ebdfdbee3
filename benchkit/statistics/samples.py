"""The samples of one case on all participating ranks, and the times derived from them.

A sample is a batch of consecutive calls. Its start is the start of the first call; its duration is
stored as the mean per call. Only this class adds durations to starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from benchkit.statistics import SLOWEST_RANK, SPAN
from benchkit.statistics.intervals import Array, median, medians

MAX_START_UNCERTAINTY = 0.1
"""Largest error of starts, as a share of the time of a call. Beyond it no time is computed from
starts: there is no makespan, skew or straggler."""


class Arrivals(TypedDict):
    """Metrics that need starts on one clock; None without them."""

    start_skew_s: float | None
    makespan_s: float | None
    straggler_rank: int | None
    straggler_share: float | None


NO_ARRIVALS = Arrivals(
    start_skew_s=None, makespan_s=None, straggler_rank=None, straggler_share=None
)


def slowest_rank(rows: Any) -> Array:
    """Return the longest time of each iteration: [rank][iteration] -> [iteration]."""
    slowest: Array = np.asarray(rows, dtype=np.float64).max(axis=0)
    return slowest


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of the participating ranks.

    Attributes:
        calls_s: seconds per call, the mean of each sample: [rank][iteration].
        starts_s: start of each sample in seconds on one clock: [rank][iteration]; None if unknown.
        calls_per_sample: number of calls in each sample.
        estimator: definition of the time of an iteration, see `times`.
        blocks: iterations of each block, in order of time.
    """

    calls_s: Array
    starts_s: Array | None = None
    calls_per_sample: int = 1
    estimator: str = SLOWEST_RANK
    blocks: Sequence[int] = ()

    def drop_uncertain_starts(self, uncertainty_s: float) -> "Samples":
        """Return the samples, without their starts if these are too uncertain."""
        if not uncertainty_s:
            return self
        if uncertainty_s <= MAX_START_UNCERTAINTY * median(slowest_rank(self.calls_s)):
            return self
        return replace(self, starts_s=None, estimator=SLOWEST_RANK)

    @cached_property
    def times(self) -> Array:
        """Seconds per call of each iteration, over all ranks: [iteration].

        SLOWEST_RANK is the longest sample of all ranks. LAST_ARRIVAL is the time from the last
        rank's start to the last rank's end, which excludes waiting for late ranks. SPAN is the time
        from the first rank's start to the last rank's end, for ranks that share cores and do not
        overlap. Without starts, both are the longest sample.
        """
        if self.estimator == SLOWEST_RANK or self.starts_s is None:
            return slowest_rank(self.calls_s)
        first = self.starts_s.min if self.estimator == SPAN else self.starts_s.max
        return np.asarray((self.ends_s.max(axis=0) - first(axis=0)) / self.calls_per_sample)

    @cached_property
    def ends_s(self) -> Array:
        """End of each sample on the clock of the starts: [rank][iteration]."""
        assert self.starts_s is not None
        return np.asarray(self.starts_s + self.calls_per_sample * self.calls_s)

    @property
    def block_medians(self) -> Array:
        """Median seconds per call of each block: [block]."""
        lengths = np.asarray(self.blocks, dtype=int)
        if len(lengths) and (lengths == lengths[0]).all():  # nearly always
            return medians(self.times[: lengths.sum()].reshape(-1, lengths[0]))
        block_ends = np.cumsum(lengths)
        return np.array([median(block) for block in np.split(self.times, block_ends)[:-1]])

    @property
    def arrivals(self) -> Arrivals:
        """Skew, makespan and straggler, from the starts and ends of all ranks.

        `start_skew_s` is the median of last minus first start, `makespan_s` that of last end minus
        last start, per call. `straggler_rank` ended last most often, in the share
        `straggler_share` of iterations: about 1 / ranks without a straggler.
        """
        if self.starts_s is None:
            return NO_ARRIVALS
        last_start = self.starts_s.max(axis=0)
        shares = self.last_shares
        straggler = int(shares.argmax()) if len(shares) > 1 and shares.any() else None
        return {
            "start_skew_s": median(last_start - self.starts_s.min(axis=0)),
            "makespan_s": median(self.ends_s.max(axis=0) - last_start) / self.calls_per_sample,
            "straggler_rank": straggler,
            "straggler_share": None if straggler is None else float(shares[straggler]),
        }

    @property
    def last_shares(self) -> Array:
        """Share of iterations in which a single rank ended last: [rank].

        An iteration with a tie of the last ranks has no straggler.
        """
        is_last = self.ends_s == self.ends_s.max(axis=0)
        is_only_last = is_last & (is_last.sum(axis=0) == 1)
        return np.asarray(is_only_last.sum(axis=1) / self.calls_s.shape[1])
