"""Compares cases of one job round by round: speedup and overlap from medians of their blocks."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from benchkit.statistics.intervals import FEWEST_ROUNDS, Array, series_interval
from benchkit.statistics.quantiles import median, medians
from benchkit.statistics.summary import slowest_rank

Estimate = tuple[float, float | None, float | None]
"""A value and its 95 % interval, which is None where there are too few independent rounds."""


class Timed(Protocol):
    """A case with its samples [rank][iteration] in seconds, and the lengths of its blocks."""

    @property
    def samples(self) -> Array: ...

    @property
    def blocks(self) -> Sequence[int]: ...


def round_medians(case: Timed) -> Array:
    """Returns the median of each block in seconds: [block]; cases of a job take turns in blocks."""
    times = slowest_rank(case.samples)
    lengths = np.asarray(case.blocks, dtype=int)
    if len(lengths) and (lengths == lengths[0]).all():  # as nearly all blocks are
        return medians(times[: lengths.sum()].reshape(-1, lengths[0]))
    ends = np.cumsum(lengths)
    return np.array([median(block) for block in np.split(times, ends)[:-1]])


def paired_speedup(baseline: Timed, case: Timed) -> Estimate:
    """Returns how many times faster a case is than the baseline, another case of its job.

    It is the median over rounds of the ratio of both block medians. Cases are timed in turns, so a
    disturbance that lasts for a while affects both.
    """
    reference, own = aligned(baseline, case)
    return estimated(reference / own)


def paired_overlap(compute: Timed, communicate: Timed, case: Timed) -> Estimate:
    """Returns the share of the shorter component that is hidden behind the other.

    It is the median over rounds of (T_comp + T_comm - T) / min(T_comp, T_comm): 1 where the shorter
    component is hidden, below 0 where the components hinder each other. The shorter one is the one
    with the smaller median, in all rounds. The smaller of two noisy times of each round would be
    too small, and the overlap too large.

    Args:
        compute: the case that times computation alone, T_comp.
        communicate: the case that times communication alone, T_comm.
        case: the case that does both, T.
    """
    computing, communicating, both = aligned(compute, communicate, case)
    shorter = min(computing, communicating, key=median)
    return estimated((computing + communicating - both) / shorter)


def aligned(*cases: Timed) -> list[Array]:
    """Returns the block medians of each case in the rounds that all cases took part in: [round]."""
    medians_by_case = [round_medians(case) for case in cases]
    rounds = min(map(len, medians_by_case))
    return [medians[:rounds] for medians in medians_by_case]


def estimated(rounds: Array) -> Estimate:
    """Returns the median of a figure of all rounds [round] and its interval."""
    low, high = series_interval(rounds, FEWEST_ROUNDS) or (None, None)
    return median(rounds), low, high
