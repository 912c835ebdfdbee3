"""After how many calls a slow first call and faster later ones take less time than a baseline."""

import math
from dataclasses import dataclass

import numpy as np

from benchkit.statistics.intervals import Array
from benchkit.statistics.quantiles import median, quantile

WITHIN, ESTIMATED, NEVER, UNCLEAR = "within", "estimated", "never", "unclear"


@dataclass(frozen=True)
class BreakEven:
    """From which call on the sum of all calls is at most that of the baseline.

    Attributes:
        outcome: WITHIN the calls that were measured; ESTIMATED, beyond them; NEVER, because steady
            calls are slower; UNCLEAR, because the middle halves of the steady calls and of the
            baseline's overlap, so that their difference says little.
        call: its number from 1; None for NEVER and UNCLEAR.
        measured: how many calls were compared.
    """

    outcome: str
    call: int | None
    measured: int

    def short(self) -> str:
        """Format the call, or the outcome where there is none."""
        if self.call is None:
            return self.outcome
        return str(self.call) if self.outcome == WITHIN else f"about {rounded(self.call)}"

    def __str__(self) -> str:
        return self.short() + ("" if self.call else f", not within {self.measured}")


def rounded(count: int) -> int:
    """Return a number of calls with the two digits that an estimate has."""
    return round(count, 1 - int(math.log10(count)))


def break_even(times: Array, baseline: Array, steady: Array, steady_baseline: Array) -> BreakEven:
    """Find the call from which on compiling has paid, to the end of what was measured.

    With C and E the sums of the first n calls, compiled and as the baseline, it is the smallest n
    such that C <= E for n and for all later calls. Where C > E after all N calls, later calls are
    taken to last as long as the median of the steady ones, so that

        n = N + (C - E) / (median steady baseline - median steady time).

    Args:
        times: seconds of each call in order: [call].
        baseline: the same of the baseline; only the calls that both have count.
        steady: seconds of the calls at the end, which a median is taken of: [call].
        steady_baseline: the same of the baseline.
    """
    number = min(len(times), len(baseline))
    behind_s = np.cumsum(times[:number]) - np.cumsum(baseline[:number])
    late = np.flatnonzero(behind_s > 0)
    if not late.size:
        return BreakEven(WITHIN, 1, number)
    if late[-1] + 1 < number:
        return BreakEven(WITHIN, int(late[-1]) + 2, number)
    own, other = middle_half(steady), middle_half(steady_baseline)
    if own[0] > other[1]:
        return BreakEven(NEVER, None, number)
    if own[1] >= other[0]:
        return BreakEven(UNCLEAR, None, number)
    gain_s = median(steady_baseline) - median(steady)
    return BreakEven(ESTIMATED, number + math.ceil(behind_s[-1] / gain_s), number)


def middle_half(times: Array) -> tuple[float, float]:
    """Return the first and the third quartile of the times."""
    ordered = np.sort(times)
    return quantile(ordered, 0.25), quantile(ordered, 0.75)
