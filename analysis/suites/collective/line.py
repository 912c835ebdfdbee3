"""Latency and time per byte fitted to measured times in logarithms, with their 95 % intervals.

Noise multiplies times, so a fit minimises the squared logarithms of model / time. Squared relative
errors would give short times more weight than long ones, and the line would come out too fast.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Matrix = tuple[tuple[float, float], tuple[float, float]]
STUDENT = {1: 12.706, 2: 4.303}
"""Student's t at 97.5 % by degrees of freedom; above, the series of `student` is right to 1 %."""
BEYOND, STARTS, STEPS, SETTLED = 10.0, 40, 60, 1e-13
"""Of the search for the logarithm of latency over time per byte: how far beyond those of all sizes it
reaches, how many starts it tries, its steps at most, and the step that ends it."""


@dataclass(frozen=True)
class Line:
    """latency_s + byte_s x bytes, from `low_bytes` on.

    covariance: of (latency_s, byte_s), times the square of Student's t for 95 %; None where the line
    goes through two points.
    """

    latency_s: float
    byte_s: float
    low_bytes: float = 0.0
    covariance: Matrix | None = None

    def seconds(self, num_bytes: float) -> float:
        return self.latency_s + self.byte_s * num_bytes

    def interval(self, latencies: float, num_bytes: float) -> tuple[float, float] | None:
        """The 95 % interval of latencies x latency_s + num_bytes x byte_s, in seconds.

        Args:
            latencies: 1 for the interval of the latency or of a message, 0 for that of byte_s.
            num_bytes: of the message; 1 with latencies = 0 for the interval of byte_s.

        Returns:
            Both ends. The lower one is 0 where the times cannot tell the value from 0; otherwise the
            value is the geometric mean of both. None where two points make the line.
        """
        if self.covariance is None:
            return None
        value = latencies * self.latency_s + num_bytes * self.byte_s
        weights = np.array([latencies, num_bytes])
        half = math.sqrt(max(0.0, float(weights @ np.array(self.covariance) @ weights)))
        if half >= value:
            return 0.0, value + half
        return value * math.exp(-half / value), value * math.exp(half / value)

    @property
    def gb_per_s(self) -> float | None:
        """The bandwidth of long messages, 10^9 bytes per second; None where size costs nothing."""
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

    Given latency_s / byte_s, byte_s is a geometric mean; the logarithm of that ratio is found by
    Gauss-Newton in time proportional to the number of times.
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
    """The logarithm of latency over time per byte, from `low` to `high`, with the best fit."""

    def rest(at: float) -> Array:
        unexplained = logs - np.log(math.exp(at) * many + size)
        return np.asarray(unexplained - unexplained.sum() / len(size))  # mean() takes thrice as long

    tried = np.linspace(low, high, STARTS)
    missed = np.log(np.exp(tried)[:, None] * many + size) - logs
    at = float(tried[missed.var(axis=1).argmin()])
    left = rest(at)
    for _ in range(STEPS):
        share = math.exp(at) * many / (math.exp(at) * many + size)  # of each time, the latency's
        slope = share - share.sum() / len(size)
        steepness = float(slope @ slope)
        if not steepness:  # sizes that differ by less than is told apart
            break
        step = float(left @ slope) / steepness
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
    """The covariance of the fit, from its slopes and residuals, times the square of t."""
    freedom = len(logs) - 2
    if freedom < 1:
        return None
    model = latency * many + byte * size
    slopes = np.column_stack([many / model, size / model])
    missed = logs - np.log(model)
    scale = float(missed @ missed) / freedom * student(freedom) ** 2
    try:
        ((a, b), (c, d)) = np.linalg.inv(slopes.T @ slopes) * scale
    except np.linalg.LinAlgError:  # sizes so near each other that they tell of one number
        return None
    return (float(a), float(b)), (float(c), float(d))


def student(freedom: int) -> float:
    """Student's t at 97.5 % (the series in 1 / freedom: Abramowitz and Stegun, 26.7.5)."""
    more = 1.95996 + 2.3723 / freedom + 2.8226 / freedom**2 + 2.5558 / freedom**3
    return STUDENT.get(freedom, more)
