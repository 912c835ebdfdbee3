"""Fits the latency and bandwidth of a link to measured times over sizes.

Hockney's model (1994): a message of S bytes takes latency + S / bandwidth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.suites.collective.line import Array, Line, line_through
from analysis.suites.collective.splits import FEWEST, PAYS, Splits

FAR_OFF = 0.25
"""Where the model is further from a measured time than this share of the time, it is marked."""
MOST = 100
"""At most this many sizes are left out in turn."""
EXACT = 1e-9
"""At this sum of squared errors, one line is exact."""


@dataclass(frozen=True)
class Fit:
    """One line, or two lines where the protocol changes with the size.

    Attributes:
        lines: in ascending order of size; the second holds from its `low_bytes` on.
    """

    lines: tuple[Line, ...]

    def seconds(self, num_bytes: float) -> float:
        line = next(line for line in reversed(self.lines) if num_bytes >= line.low_bytes)
        return line.seconds(num_bytes)

    def all_seconds(self, sizes: Sequence[float]) -> Array:
        """Compute the time of a message of each size, in seconds: [size]."""
        size = np.asarray(sizes, dtype=float)
        found = np.asarray(self.lines[0].latency_s + self.lines[0].byte_s * size)
        for line in self.lines[1:]:
            found = np.where(size >= line.low_bytes, line.latency_s + line.byte_s * size, found)
        return found

    def errors(self, sizes: Sequence[float], times_s: Sequence[float]) -> list[float]:
        """Compute how far the model is from each measured time, as a share of that time."""
        errors: list[float] = (self.all_seconds(sizes) / np.asarray(times_s) - 1).tolist()
        return errors

    def r_squared(self, sizes: Sequence[float], times_s: Sequence[float]) -> float | None:
        """Compute R² of the logarithms of the times; None where all times are equal.

        Logarithms are compared because sizes span decades.
        """
        logs = np.log(times_s)
        spread = float(((logs - logs.mean()) ** 2).sum())
        missed = float(((np.log(self.all_seconds(sizes)) - logs) ** 2).sum())
        return 1 - missed / spread if spread else None


def fit(sizes: Sequence[float], times_s: Sequence[float]) -> Fit:
    """Fit one line, or two lines where they leave far less unexplained (PAYS).

    Two lines are split where that is best.
    """
    points = sorted(zip(sizes, times_s, strict=True))
    size = [size for size, _ in points]
    time = [time for _, time in points]
    return best_of(size, time, Splits(size, time).best())


def best_of(sizes: Sequence[float], times_s: Sequence[float], places: Sequence[int]) -> Fit:
    """Fit one line, or two that are split at the best of some places where they pay.

    Args:
        sizes: in ascending order.
        times_s: the measured times in seconds.
        places: the numbers of sizes below each split.
    """
    one = Fit((line_through(sizes, times_s),))
    if not places:
        return one
    pairs = [split_at(sizes, times_s, place) for place in places]
    two = min(pairs, key=lambda pair: unexplained(pair, sizes, times_s))
    if unexplained(one, sizes, times_s) > PAYS * unexplained(two, sizes, times_s) + EXACT:
        return two
    return one


def split_at(sizes: Sequence[float], times_s: Sequence[float], cut: int) -> Fit:
    """Fit one line to the sizes before index `cut`, and another to those from there on."""
    first = line_through(sizes[:cut], times_s[:cut])
    second = line_through(sizes[cut:], times_s[cut:], low_bytes=sizes[cut])
    return Fit((first, second))


def spread(sizes: Sequence[float]) -> list[int]:
    """Select the indices of at most MOST of ascending sizes, both ends included.

    The sizes selected are about evenly apart in their logarithms.
    """
    if len(sizes) <= MOST:
        return list(range(len(sizes)))
    logs = np.log(sizes)
    wanted = np.linspace(logs[0], logs[-1], MOST)
    above = np.searchsorted(logs, wanted).clip(1, len(sizes) - 1)
    nearest = above - (wanted - logs[above - 1] < logs[above] - wanted)
    return sorted(set(nearest.tolist()))


def unexplained(found: Fit, sizes: Sequence[float], times_s: Sequence[float]) -> float:
    """Sum the squared logarithms of model / time, which fitting a line minimises."""
    missed = np.log(found.all_seconds(sizes) / np.asarray(times_s))
    return float(missed @ missed)


def left_out(sizes: Sequence[float], times_s: Sequence[float]) -> list[float | None]:
    """Compute how far a fit to all other sizes is from each time, as a share of that time.

    The smallest and the largest size have None, because the fit would have to extrapolate. Of more
    than MOST sizes, those that `spread` selects are left out; the rest have None.
    """
    found: list[float | None] = [None] * len(sizes)
    if len(sizes) <= FEWEST:
        return found
    order = sorted(range(len(sizes)), key=lambda place: sizes[place])
    size = [sizes[place] for place in order]
    time = [times_s[place] for place in order]
    splits = Splits(size, time)
    for index in spread(size):
        if size[0] < size[index] < size[-1]:
            places = splits.best(without=index)
            rest = best_of(without(size, index), without(time, index), places)
            found[order[index]] = rest.seconds(size[index]) / time[index] - 1
    return found


def without(values: Sequence[float], index: int) -> list[float]:
    """Return all values but one."""
    return [*values[:index], *values[index + 1 :]]
