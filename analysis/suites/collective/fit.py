"""What a link does: latency and bandwidth fitted to times over sizes, and what follows for other numbers of ranks.

Hockney's model (1994): a message of S bytes takes latency + S / bandwidth. Costs of algorithms as in Thakur,
Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH (2005).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.suites.collective.line import Line, line_through, solved, student

FAR_OFF = 0.25
"""A measured time that is further than this share of it from the line is marked."""
FEWEST = 3
"""Sizes that a line needs before it says anything of itself."""
MOST = 100
"""Sizes among which the split is sought and of which each is left out once: what that takes grows with their cube."""
PAYS, EXACT = 20.0, 1e-9
"""A second line is believed where it divides the sum of squared errors by more. Three more parameters and the choice of
where to split divide that of mere noise, at 6 to 12 sizes, by so much in some 3 % of trials (test); at EXACT, one line
is exact."""


@dataclass(frozen=True)
class Fit:
    """One line, or two where the protocol changes with the size; the second holds from its `low_bytes` on."""

    lines: tuple[Line, ...]

    def seconds(self, num_bytes: float) -> float:
        return next(line for line in reversed(self.lines) if num_bytes >= line.low_bytes).seconds(num_bytes)

    def errors(self, sizes: Sequence[float], times_s: Sequence[float]) -> list[float]:
        """Of each measured time, how far off the model is, as a share of it."""
        return [self.seconds(size) / time - 1 for size, time in zip(sizes, times_s, strict=True)]

    def r_squared(self, sizes: Sequence[float], times_s: Sequence[float]) -> float | None:
        """Of the logarithms of the times, since sizes span decades; None where all times are alike."""
        logs = np.log(times_s)
        spread = float(((logs - logs.mean()) ** 2).sum())
        missed = float(((np.log([self.seconds(size) for size in sizes]) - logs) ** 2).sum())
        return 1 - missed / spread if spread else None


def fit(sizes: Sequence[float], times_s: Sequence[float]) -> Fit:
    """One line; two, split where that is best, if they leave far less unexplained (PAYS).

    Of more than MOST sizes, the split is sought among as many that `spread` takes.
    """
    ordered = sorted(zip(sizes, times_s, strict=True))
    size, time = [each[0] for each in ordered], [each[1] for each in ordered]
    one = Fit((line_through(size, time),))
    kept = spread(size)
    some = [size[place] for place in kept], [time[place] for place in kept]
    pairs = [split_at(*some, cut) for cut in range(FEWEST, len(kept) - FEWEST + 1)]
    two = min(pairs, key=lambda each: unexplained(each, *some), default=one)
    if len(kept) < len(size):
        two = split_at(size, time, size.index(two.lines[-1].low_bytes))
    return two if unexplained(one, size, time) > PAYS * unexplained(two, size, time) + EXACT else one


def split_at(sizes: Sequence[float], times_s: Sequence[float], cut: int) -> Fit:
    """A line through the first sizes, and one through those from a place on."""
    first = line_through(sizes[:cut], times_s[:cut])
    return Fit((first, line_through(sizes[cut:], times_s[cut:], low_bytes=sizes[cut])))


def spread(sizes: Sequence[float]) -> list[int]:
    """Places of at most MOST of ascending sizes, about evenly apart in their logarithms, both ends among them."""
    if len(sizes) <= MOST:
        return list(range(len(sizes)))
    logs = np.log(sizes)
    wanted = np.linspace(logs[0], logs[-1], MOST)
    above = np.searchsorted(logs, wanted).clip(1, len(sizes) - 1)
    nearest = above - (wanted - logs[above - 1] < logs[above] - wanted)
    return sorted(set(nearest.tolist()))


def unexplained(found: Fit, sizes: Sequence[float], times_s: Sequence[float]) -> float:
    """Sum of the squared logarithms of model / time, which a line makes least."""
    return sum(math.log(found.seconds(size) / time) ** 2 for size, time in zip(sizes, times_s, strict=True))


def left_out(sizes: Sequence[float], times_s: Sequence[float]) -> list[float | None]:
    """Of each time, how far off a fit to all others is; None for the ends, which it would have to extrapolate.

    Of more than MOST sizes as many are taken (`spread`), each beside the others of these; None for the rest.
    """
    found: list[float | None] = [None] * len(sizes)
    if len(sizes) <= FEWEST:
        return found
    order = sorted(range(len(sizes)), key=lambda place: sizes[place])
    kept = [order[place] for place in spread([sizes[place] for place in order])]
    for place in kept:
        if sizes[kept[0]] < sizes[place] < sizes[kept[-1]]:
            rest = [other for other in kept if other != place]
            without = fit([sizes[other] for other in rest], [times_s[other] for other in rest])
            found[place] = without.seconds(sizes[place]) / times_s[place] - 1
    return found


Cost = Callable[[int], tuple[float, float]]
"""Of n ranks: how many latencies, and how many times the payload's bytes, lie on the longest path."""


def rounds(n: int) -> int:
    """Steps in which everybody can be reached by doubling."""
    return math.ceil(math.log2(n))


ALGORITHMS: Mapping[str, Mapping[str, Cost]] = {
    "all_reduce": {
        "ring": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
        "recursive halving and doubling": lambda n: (2 * rounds(n), 2 * (n - 1) / n),
        "recursive doubling": lambda n: (rounds(n), rounds(n)),
        "tree": lambda n: (2 * rounds(n), 2 * rounds(n)),
    },
    "all_gather": {
        "ring": lambda n: (n - 1, (n - 1) / n),
        "recursive doubling": lambda n: (rounds(n), (n - 1) / n),
    },
    "reduce_scatter": {
        "ring": lambda n: (n - 1, (n - 1) / n),
        "recursive halving": lambda n: (rounds(n), (n - 1) / n),
    },
    "broadcast": {
        "tree": lambda n: (rounds(n), rounds(n)),
        "scatter and ring": lambda n: (rounds(n) + n - 1, 2 * (n - 1) / n),
    },
    "reduce": {
        "tree": lambda n: (rounds(n), rounds(n)),
        "ring": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
    },
    "gather": {"linear": lambda n: (n - 1, (n - 1) / n), "tree": lambda n: (rounds(n), (n - 1) / n)},
    "scatter": {"linear": lambda n: (n - 1, (n - 1) / n), "tree": lambda n: (rounds(n), (n - 1) / n)},
    "all_to_all": {
        "pairwise": lambda n: (n - 1, (n - 1) / n),
        "recursive doubling": lambda n: (rounds(n), rounds(n) / 2),
    },
    "send_recv": {"ping-pong": lambda n: (1, 1)},
}  # fmt: skip


@dataclass(frozen=True)
class Message:
    """Latency and time per byte of one message, as an algorithm's cost explains what some numbers of ranks take.

    off: how far it is from the measured times at most, as a share of them. likely: whether the measured times leave it
    open that this is the algorithm.
    """

    algorithm: str
    line: Line
    off: float
    likely: bool

    def seconds(self, collective: str, world_size: int, num_bytes: float) -> float:
        latencies, times_over = ALGORITHMS[collective][self.algorithm](world_size)
        return latencies * self.line.latency_s + times_over * num_bytes * self.line.byte_s

    def interval(self, collective: str, world_size: int, num_bytes: float) -> tuple[float, float] | None:
        """The 95 % interval of `seconds`, if this is the algorithm; None where none is known."""
        latencies, times_over = ALGORITHMS[collective][self.algorithm](world_size)
        return self.line.interval(latencies, times_over * num_bytes)


Times = Mapping[int, Sequence[tuple[float, float]]]
"""Of some numbers of ranks: sizes in bytes and measured seconds."""


def messages(collective: str, times: Times) -> list[Message]:
    """One per algorithm: those that the measured times leave open as they are listed, the others by their misses.

    Left open is what leaves hardly more unexplained than the best: as much as a parameter within its 95 % interval.
    """
    measured = [(n, size, time) for n, each in times.items() for size, time in each]
    found: list[tuple[float, Message]] = []
    for name, cost in ALGORITHMS.get(collective, {}).items():
        message = Message(name, message_of(cost, times), 0.0, True)
        ratios = [message.seconds(collective, n, size) / time for n, size, time in measured]
        off = max(abs(ratio - 1) for ratio in ratios)
        found.append((sum(math.log(ratio) ** 2 for ratio in ratios), replace(message, off=off)))
    freedom = max(1, len(measured) - 2)
    least = min((missed for missed, _ in found), default=0.0)
    most = least * (1 + student(freedom) ** 2 / freedom) + EXACT
    told = [replace(message, likely=missed <= most) for missed, message in found]
    return sorted(told, key=lambda message: (not message.likely, 0.0 if message.likely else message.off))


def message_of(cost: Cost, times: Times) -> Line:
    """Latency and time per byte of one message: the line over all sizes and ranks at once."""
    measured = [(*cost(n), size, time) for n, each in times.items() for size, time in each]
    return solved(
        [latencies for latencies, _, _, _ in measured],
        [over * size for _, over, size, _ in measured],
        [time for _, _, _, time in measured],
    )
