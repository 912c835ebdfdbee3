"""Fits the latency and bandwidth of a link to measured times over sizes.

Hockney's model (1994): a message of S bytes takes latency + S / bandwidth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.suites.collective.line import Line, line_through

FAR_OFF = 0.25
"""Where the model is further from a measured time than this share of the time, it is marked."""
FEWEST = 3
"""Fewer sizes than this say nothing of a line."""
MOST = 100
"""The split is sought among at most this many sizes, and each of these is left out once.

The time that this takes grows with the cube of their number.
"""
PAYS = 20.0
"""A second line is believed where it divides the sum of squared errors by more than this.

It brings three parameters and the choice of where to split. At 6 to 12 sizes these divide the
squared errors of mere noise by this much in some 3 % of trials (test).
"""
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

    def errors(self, sizes: Sequence[float], times_s: Sequence[float]) -> list[float]:
        """Compute how far the model is from each measured time, as a share of that time."""
        return [self.seconds(size) / time - 1 for size, time in zip(sizes, times_s, strict=True)]

    def r_squared(self, sizes: Sequence[float], times_s: Sequence[float]) -> float | None:
        """Compute R² of the logarithms of the times; None where all times are equal.

        Logarithms are compared because sizes span decades.
        """
        logs = np.log(times_s)
        spread = float(((logs - logs.mean()) ** 2).sum())
        model = np.log([self.seconds(size) for size in sizes])
        missed = float(((model - logs) ** 2).sum())
        return 1 - missed / spread if spread else None


def fit(sizes: Sequence[float], times_s: Sequence[float]) -> Fit:
    """Fit one line, or two lines where they leave far less unexplained (PAYS).

    Two lines are split where that is best. Of more than MOST sizes, the split is sought among those
    that `spread` selects.
    """
    points = sorted(zip(sizes, times_s, strict=True))
    size = [size for size, _ in points]
    time = [time for _, time in points]
    one = Fit((line_through(size, time),))
    kept = spread(size)
    kept_size = [size[place] for place in kept]
    kept_time = [time[place] for place in kept]
    cuts = range(FEWEST, len(kept) - FEWEST + 1)
    pairs = [split_at(kept_size, kept_time, cut) for cut in cuts]
    if not pairs:
        return one
    two = min(pairs, key=lambda pair: unexplained(pair, kept_size, kept_time))
    if len(kept) < len(size):
        two = split_at(size, time, size.index(two.lines[-1].low_bytes))
    if unexplained(one, size, time) > PAYS * unexplained(two, size, time) + EXACT:
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
    points = zip(sizes, times_s, strict=True)
    return sum(math.log(found.seconds(size) / time) ** 2 for size, time in points)


def left_out(sizes: Sequence[float], times_s: Sequence[float]) -> list[float | None]:
    """Compute how far a fit to all other sizes is from each time, as a share of that time.

    The smallest and the largest size have None, because the fit would have to extrapolate. Of more
    than MOST sizes, those that `spread` selects are compared with each other; the rest have None.
    """
    found: list[float | None] = [None] * len(sizes)
    if len(sizes) <= FEWEST:
        return found
    order = sorted(range(len(sizes)), key=lambda place: sizes[place])
    ascending = [sizes[place] for place in order]
    kept = [order[place] for place in spread(ascending)]
    for place in kept:
        if sizes[kept[0]] < sizes[place] < sizes[kept[-1]]:
            rest = [other for other in kept if other != place]
            without = fit([sizes[other] for other in rest], [times_s[other] for other in rest])
            found[place] = without.seconds(sizes[place]) / times_s[place] - 1
    return found
