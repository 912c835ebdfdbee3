"""Latency and time per byte from measured times, with what is known of both: Hockney's line, fitted in logarithms.

Noise multiplies times, so the sum of squared logarithms of model / time is what a fit makes least. Squared relative
errors would weigh a time that is too short more than one as many times too long: the line comes out too fast.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Matrix = tuple[tuple[float, float], tuple[float, float]]
STUDENT = {1: 12.706, 2: 4.303}
"""Student's t at 97.5 % by degrees of freedom; for more of them the series of `student` is right to 1 %."""
BEYOND, STARTS, STEPS, SETTLED = 10.0, 40, 60, 1e-13
"""In logarithms of latency over time per byte: how far beyond all sizes it is looked for, places to start from, steps
at most, and the step that ends the search."""


@dataclass(frozen=True)
class Line:
    """latency_s + byte_s x bytes, from `low_bytes` on.

    covariance: of (latency_s, byte_s), times the square of Student's t for 95 %; None where two points make the line.
    """

    latency_s: float
    byte_s: float
    low_bytes: float = 0.0
    covariance: Matrix | None = None

    def seconds(self, num_bytes: float) -> float:
        return self.latency_s + self.byte_s * num_bytes

    def interval(self, latencies: float, num_bytes: float) -> tuple[float, float] | None:
        """The 95 % interval of latencies x latency_s + num_bytes x byte_s, in seconds; None where none is known.

        (1, 0) is that of the latency, (0, 1) that of the time per byte. The lower end is 0 where the times cannot tell
        the value from 0; otherwise the value lies as many times above the lower end as below the upper one.
        """
        if self.covariance is None:
            return None
        value, weights = latencies * self.latency_s + num_bytes * self.byte_s, np.array([latencies, num_bytes])
        half = math.sqrt(max(0.0, float(weights @ np.array(self.covariance) @ weights)))
        if half >= value:
            return 0.0, value + half
        return value * math.exp(-half / value), value * math.exp(half / value)

    @property
    def gb_per_s(self) -> float | None:
        """The bandwidth that long messages come near to, 10^9 bytes per second; None where size costs nothing."""
        return 1e-9 / self.byte_s if self.byte_s else None

    @property
    def half_bandwidth_bytes(self) -> float | None:
        """The size at which half of it is reached: latency x bandwidth (n_1/2 of Hockney)."""
        return self.latency_s / self.byte_s if self.byte_s else None


def line_through(sizes: Sequence[float], times_s: Sequence[float], low_bytes: float = 0.0) -> Line:
    """The line nearest to the times; neither latency nor time per byte is negative."""
    return solved([1.0] * len(sizes), sizes, times_s, low_bytes)


def solved(
    latencies: Sequence[float], sizes: Sequence[float], times_s: Sequence[float], low_bytes: float = 0.0
) -> Line:
    """The line with the least squares of log((latency_s x latencies + byte_s x sizes) / times_s).

    Gauss-Newton on the one unknown that is left when the other is solved for: the logarithm of latency_s / byte_s.
    """
    many, size, logs = (np.asarray(values, dtype=float) for values in (latencies, sizes, np.log(times_s)))
    ratios = np.log(size / many)
    low, high = ratios.min() - BEYOND, ratios.max() + BEYOND
    where = nearest(many, size, logs, low, high)
    if where <= low:  # no latency explains as much as any
        latency, byte = 0.0, math.exp((logs - np.log(size)).mean())
    elif where >= high:
        latency, byte = math.exp((logs - np.log(many)).mean()), 0.0
    else:
        byte = math.exp((logs - np.log(math.exp(where) * many + size)).mean())
        latency = math.exp(where) * byte
    return Line(latency, byte, low_bytes, covariance(latency, byte, many, size, logs))


def nearest(many: Array, size: Array, logs: Array, low: float, high: float) -> float:
    """The logarithm of latency over time per byte that leaves least unexplained, `low` or `high` where none does."""

    def rest(at: float) -> Array:
        unexplained = logs - np.log(math.exp(at) * many + size)
        return np.asarray(unexplained - unexplained.mean())

    tried = np.linspace(low, high, STARTS)
    missed = np.log(np.exp(tried)[:, None] * many + size) - logs
    at = float(tried[missed.var(axis=1).argmin()])
    left = rest(at)
    for _ in range(STEPS):
        share = math.exp(at) * many / (math.exp(at) * many + size)  # of each time, the latency's
        slope = share - share.mean()
        step = float(left @ slope) / float(slope @ slope)
        further = min(high, max(low, at + step))
        after = rest(further)
        while after @ after > left @ left and abs(further - at) > SETTLED:
            further = (at + further) / 2
            after = rest(further)
        at, moved, left = further, abs(further - at), after
        if moved <= SETTLED:
            break
    return at


def covariance(latency: float, byte: float, many: Array, size: Array, logs: Array) -> Matrix | None:
    """That of the least squares, from their slopes and what they leave unexplained, times the square of t."""
    freedom = len(logs) - 2
    if freedom < 1:
        return None
    model = latency * many + byte * size
    slopes = np.column_stack([many / model, size / model])
    missed = logs - np.log(model)
    ((a, b), (c, d)) = np.linalg.inv(slopes.T @ slopes) * float(missed @ missed) / freedom * student(freedom) ** 2
    return (float(a), float(b)), (float(c), float(d))


def student(freedom: int) -> float:
    """Student's t at 97.5 % (the series in 1 / freedom: Abramowitz and Stegun, 26.7.5)."""
    more = 1.95996 + 2.3723 / freedom + 2.8226 / freedom**2 + 2.5558 / freedom**3
    return STUDENT.get(freedom, more)
