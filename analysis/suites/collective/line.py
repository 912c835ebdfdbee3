"""Fits latency and time per byte to the logarithms of measured times, with 95 % intervals.

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
BEYOND = 10.0
"""How far the search for log(latency / time per byte) goes beyond the logarithms of all sizes."""
STARTS = 40
"""Points at which the search tries to start."""
STEPS = 60
"""Steps that the search takes at most."""
SETTLED = 1e-13
"""The search ends at a step no longer than this."""


@dataclass(frozen=True)
class Line:
    """The time of a message over its size: latency_s + byte_s x bytes.

    Attributes:
        latency_s: the time of a message of no bytes.
        byte_s: the time that each further byte takes.
        low_bytes: the size from which the line holds.
        covariance: of (latency_s, byte_s), times the square of Student's t for 95 %; None where
            the line goes through two points.
    """

    latency_s: float
    byte_s: float
    low_bytes: float = 0.0
    covariance: Matrix | None = None

    def seconds(self, num_bytes: float) -> float:
        return self.latency_s + self.byte_s * num_bytes

    def interval(self, latencies: float, num_bytes: float) -> tuple[float, float] | None:
        """Compute the 95 % interval of latencies x latency_s + num_bytes x byte_s, in seconds.

        Args:
            latencies: 1 for the interval of the latency or of a message, 0 for that of byte_s.
            num_bytes: the size of the message; 1, with latencies = 0, for the interval of byte_s.

        Returns:
            Both ends. The lower end is 0 where the times cannot tell the value from 0; otherwise
            the value is the geometric mean of both. None where the line goes through two points.
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
    def half_bandwidth_bytes(self) -> float | None:
        """The size that reaches half the bandwidth: latency x bandwidth (Hockney's n_1/2)."""
        return self.latency_s / self.byte_s if self.byte_s else None


def line_through(sizes: Sequence[float], times_s: Sequence[float], low_bytes: float = 0.0) -> Line:
    """Fit the line nearest to the times; neither latency nor time per byte is negative."""
    return solved([1.0] * len(sizes), sizes, times_s, low_bytes)


def solved(
    latencies: Sequence[float],
    sizes: Sequence[float],
    times_s: Sequence[float],
    low_bytes: float = 0.0,
) -> Line:
    """Fit the line with the least squares of log(model / times_s).

    The model is latency_s x latencies + byte_s x sizes. For a known latency_s / byte_s, byte_s is a
    geometric mean. Gauss-Newton finds the logarithm of that ratio, in time proportional to the
    number of times.

    Args:
        latencies: how many latencies each time contains.
        sizes: how many bytes each time contains.
        times_s: the measured times in seconds.
        low_bytes: the size from which the line holds.
    """
    many = np.asarray(latencies, dtype=float)
    size = np.asarray(sizes, dtype=float)
    logs = np.asarray(np.log(times_s), dtype=float)
    ratios = np.log(size / many)
    low = ratios.min() - BEYOND
    high = ratios.max() + BEYOND
    where = nearest(many, size, logs, low, high)
    if where <= low:  # A line without latency explains as much as any other.
        latency = 0.0
        byte = math.exp((logs - np.log(size)).mean())
    elif where >= high:
        latency = math.exp((logs - np.log(many)).mean())
        byte = 0.0
    else:
        byte = math.exp((logs - np.log(math.exp(where) * many + size)).mean())
        latency = math.exp(where) * byte
    return Line(latency, byte, low_bytes, covariance(latency, byte, many, size, logs))


def nearest(many: Array, size: Array, logs: Array, low: float, high: float) -> float:
    """Search log(latency / time per byte) from `low` to `high` for the best fit."""

    def rest(at: float) -> Array:
        unexplained = logs - np.log(math.exp(at) * many + size)
        mean = unexplained.sum() / len(size)  # mean() takes three times as long.
        return np.asarray(unexplained - mean)

    tried = np.linspace(low, high, STARTS)
    missed = np.log(np.exp(tried)[:, None] * many + size) - logs
    at = float(tried[missed.var(axis=1).argmin()])
    left = rest(at)
    for _ in range(STEPS):
        model = math.exp(at) * many + size
        share = math.exp(at) * many / model  # The share of the latency in each time.
        slope = share - share.sum() / len(size)
        steepness = float(slope @ slope)
        if not steepness:  # The sizes differ by less than floating point resolves.
            break
        step = float(left @ slope) / steepness
        further = min(high, max(low, at + step))
        after = rest(further)
        while after @ after > left @ left and abs(further - at) > SETTLED:
            further = (at + further) / 2
            after = rest(further)
        moved = abs(further - at)
        at, left = further, after
        if moved <= SETTLED:
            break
    return at


def covariance(latency: float, byte: float, many: Array, size: Array, logs: Array) -> Matrix | None:
    """Compute the covariance of the fit from its slopes and residuals, times the square of t."""
    freedom = len(logs) - 2
    if freedom < 1:
        return None
    model = latency * many + byte * size
    slopes = np.column_stack([many / model, size / model])
    missed = logs - np.log(model)
    scale = float(missed @ missed) / freedom * student(freedom) ** 2
    try:
        ((a, b), (c, d)) = np.linalg.inv(slopes.T @ slopes) * scale
    except np.linalg.LinAlgError:  # Sizes this close determine one number, not two.
        return None
    return (float(a), float(b)), (float(c), float(d))


def student(freedom: int) -> float:
    """Return Student's t at 97.5 % (series in 1 / freedom: Abramowitz and Stegun, 26.7.5)."""
    series = 1.95996 + 2.3723 / freedom + 2.8226 / freedom**2 + 2.5558 / freedom**3
    return STUDENT.get(freedom, series)
