"""Costs of collective algorithms: explain measured times, and predict other world sizes.

Costs are those of Thakur, Rabenseifner and Gropp, Optimization of Collective Communication
Operations in MPICH (2005).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.suites.collective.fit import EXACT, ONE_SIDE, FittedLine, fit_weighted
from benchkit.statistics.intervals import t_quantile
from benchkit.suites.collective import suite as names

Cost = Callable[[int], tuple[float, float]]
"""Maps n ranks to the critical path: number of latencies, and bytes per byte of the payload."""


def rounds(n: int) -> int:
    """Return the number of doubling steps that reach n ranks."""
    return math.ceil(math.log2(n))


ALGORITHMS: Mapping[str, Mapping[str, Cost]] = {
    names.ALL_REDUCE: {
        "ring": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
        "recursive halving and doubling": lambda n: (2 * rounds(n), 2 * (n - 1) / n),
        "recursive doubling": lambda n: (rounds(n), rounds(n)),
        "tree": lambda n: (2 * rounds(n), 2 * rounds(n)),
    },
    names.ALL_GATHER: {
        "ring": lambda n: (n - 1, (n - 1) / n),
        "recursive doubling": lambda n: (rounds(n), (n - 1) / n),
    },
    names.REDUCE_SCATTER: {
        "ring": lambda n: (n - 1, (n - 1) / n),
        "recursive halving": lambda n: (rounds(n), (n - 1) / n),
    },
    names.BROADCAST: {
        "tree": lambda n: (rounds(n), rounds(n)),
        "scatter and ring": lambda n: (rounds(n) + n - 1, 2 * (n - 1) / n),
    },
    names.REDUCE: {
        "tree": lambda n: (rounds(n), rounds(n)),
        "ring": lambda n: (2 * (n - 1), 2 * (n - 1) / n),
    },
    names.GATHER: {
        "linear": lambda n: (n - 1, (n - 1) / n),
        "tree": lambda n: (rounds(n), (n - 1) / n),
    },
    names.SCATTER: {
        "linear": lambda n: (n - 1, (n - 1) / n),
        "tree": lambda n: (rounds(n), (n - 1) / n),
    },
    names.ALL_TO_ALL: {
        "pairwise": lambda n: (n - 1, (n - 1) / n),
        "recursive doubling": lambda n: (rounds(n), rounds(n) / 2),
    },
    names.RING_SHIFT: {"neighbours": lambda n: (1, 1)},
    names.SEND_RECV: {"ping-pong": lambda n: (1, 1)},
}


@dataclass(frozen=True)
class AlgorithmFit:
    """Latency and time per byte of one message, fitted to measured times under an algorithm's cost.

    Attributes:
        max_error: largest distance from a measured time, as a share of that time.
        is_plausible: whether the measured times are consistent with the algorithm.
    """

    algorithm: str
    line: FittedLine
    max_error: float
    is_plausible: bool

    def seconds(self, collective: str, world_size: int, num_bytes: float) -> float:
        latencies, times_over = ALGORITHMS[collective][self.algorithm](world_size)
        return latencies * self.line.latency_s + times_over * num_bytes * self.line.byte_s

    def interval(
        self, collective: str, world_size: int, num_bytes: float
    ) -> tuple[float, float] | None:
        """Compute the 95 % interval of `seconds`; None if unknown."""
        latencies, times_over = ALGORITHMS[collective][self.algorithm](world_size)
        return self.line.interval(latencies, times_over * num_bytes)


Times = Mapping[int, Sequence[tuple[float, float]]]
"""By number of ranks: payloads in bytes with their measured seconds."""


def fit_algorithms(collective: str, times: Times) -> list[AlgorithmFit]:
    """Fit one message per algorithm of a collective: plausible ones, then others by `max_error`.

    An algorithm is plausible if its sum of squares exceeds that of the best one by no more than a
    parameter within its 95 % interval does.
    """
    measured = measurements(times)
    fits: list[tuple[float, AlgorithmFit]] = []
    for name, cost in ALGORITHMS.get(collective, {}).items():
        message = AlgorithmFit(name, message_of(cost, times), 0.0, True)
        ratios = [message.seconds(collective, n, size) / time for n, size, time in measured]
        worst = max(abs(ratio - 1) for ratio in ratios)
        missed = sum(math.log(ratio) ** 2 for ratio in ratios)
        fits.append((missed, replace(message, max_error=worst)))
    freedom = max(1, len(measured) - 2)
    least = min((missed for missed, _ in fits), default=0.0)
    limit = least * (1 + float(t_quantile(ONE_SIDE, freedom)) ** 2 / freedom) + EXACT
    judged = [replace(message, is_plausible=missed <= limit) for missed, message in fits]
    likely = [message for message in judged if message.is_plausible]
    unlikely = [message for message in judged if not message.is_plausible]
    return [*likely, *sorted(unlikely, key=lambda message: message.max_error)]


def message_of(cost: Cost, times: Times) -> FittedLine:
    """Fit latency and time per byte of one message to all sizes and numbers of ranks together."""
    latencies: list[float] = []
    sizes: list[float] = []
    times_s: list[float] = []
    for n, size, time in measurements(times):
        steps, times_over = cost(n)
        latencies.append(steps)
        sizes.append(times_over * size)
        times_s.append(time)
    return fit_weighted(latencies, sizes, times_s)


def measurements(times: Times) -> list[tuple[int, float, float]]:
    return [(n, size, time) for n, points in times.items() for size, time in points]
