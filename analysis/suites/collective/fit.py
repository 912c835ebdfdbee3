"""Fit the latency and bandwidth of a link to measured times over sizes.

Noise is multiplicative, so a fit minimises the squared logarithms of model / time. Squared relative
errors would give short times more weight than long ones, and bias the line towards short times.

For a known ratio of latency to time per byte, the squared error of the best line through some sizes
follows from the sum and the sum of squares of their logarithmic residuals. Cumulative sums give
both for all splits at once, for each ratio of a grid. One Gauss-Newton step refines the error
between grid points.

Hockney's model (1994): a message of S bytes takes latency + S / bandwidth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchkit.statistics.intervals import ALPHA, t_quantile

Array = npt.NDArray[np.float64]
Matrix = tuple[tuple[float, float], tuple[float, float]]
ONE_SIDE = ALPHA / 2
BEYOND = 10.0
"""Margin of the search for log(latency / time per byte) beyond the logarithms of all sizes."""
STARTS = 40
STEPS = 60
SETTLED = 1e-13


@dataclass(frozen=True)
class FittedLine:
    """The time of a message over its size, from `low_bytes` on: latency_s + byte_s x bytes.

    Attributes:
        covariance: covariance of (latency_s, byte_s), times the square of Student's t for 95 %;
            None for a line through two points.
    """

    latency_s: float
    byte_s: float
    low_bytes: float = 0.0
    covariance: Matrix | None = None

    def seconds(self, num_bytes: float) -> float:
        return self.latency_s + self.byte_s * num_bytes

    def interval(self, latencies: float, num_bytes: float) -> tuple[float, float] | None:
        """Compute the 95 % interval of latencies x latency_s + num_bytes x byte_s, in seconds.

        (1, 0) gives the latency, (0, 1) the time per byte. The lower bound is 0 if the value does
        not differ significantly from 0; otherwise the value is the geometric mean of both bounds.
        None for a line through two points.
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


def line_through(
    sizes: Sequence[float], times_s: Sequence[float], low_bytes: float = 0.0
) -> FittedLine:
    """Fit a line to the times; latency and time per byte are not negative."""
    return fit_weighted([1.0] * len(sizes), sizes, times_s, low_bytes)


def fit_weighted(
    latencies: Sequence[float],
    sizes: Sequence[float],
    times_s: Sequence[float],
    low_bytes: float = 0.0,
) -> FittedLine:
    """Fit a line by least squares of log(model / times_s).

    The model is latency_s x latencies + byte_s x sizes. For a known latency_s / byte_s, byte_s is a
    geometric mean. Gauss-Newton finds the logarithm of that ratio, in time proportional to the
    number of times.
    """
    latency_counts = np.asarray(latencies, dtype=float)
    size = np.asarray(sizes, dtype=float)
    logs = np.asarray(np.log(times_s), dtype=float)
    ratios = np.log(size / latency_counts)
    low = ratios.min() - BEYOND
    high = ratios.max() + BEYOND
    where = search_log_ratio(latency_counts, size, logs, low, high)
    if where <= low:  # A line without latency fits as well as any other.
        latency = 0.0
        byte = math.exp((logs - np.log(size)).mean())
    elif where >= high:
        latency = math.exp((logs - np.log(latency_counts)).mean())
        byte = 0.0
    else:
        byte = math.exp((logs - np.log(math.exp(where) * latency_counts + size)).mean())
        latency = math.exp(where) * byte
    return FittedLine(
        latency, byte, low_bytes, covariance(latency, byte, latency_counts, size, logs)
    )


def search_log_ratio(many: Array, size: Array, logs: Array, low: float, high: float) -> float:
    """Search log(latency / time per byte) from `low` to `high` for the best fit."""

    def rest(at: float) -> Array:
        unexplained = logs - np.log(math.exp(at) * many + size)
        mean = unexplained.sum() / len(size)  # mean() takes three times as long.
        return np.asarray(unexplained - mean)

    tried = np.linspace(low, high, STARTS)
    missed = np.log(np.exp(tried)[:, None] * many + size) - logs
    at = float(tried[missed.var(axis=1).argmin()])
    residuals = rest(at)
    for _ in range(STEPS):
        model = math.exp(at) * many + size
        share = math.exp(at) * many / model  # The share of the latency in each time.
        slope = share - share.sum() / len(size)
        steepness = float(slope @ slope)
        if not steepness:  # The sizes are equal within floating point precision.
            break
        step = float(residuals @ slope) / steepness
        candidate = min(high, max(low, at + step))
        candidate_residuals = rest(candidate)
        while (
            candidate_residuals @ candidate_residuals > residuals @ residuals
            and abs(candidate - at) > SETTLED
        ):
            candidate = (at + candidate) / 2
            candidate_residuals = rest(candidate)
        moved = abs(candidate - at)
        at, residuals = candidate, candidate_residuals
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
    scale = float(missed @ missed) / freedom * float(t_quantile(ONE_SIDE, freedom)) ** 2
    try:
        ((a, b), (c, d)) = np.linalg.inv(slopes.T @ slopes) * scale
    except np.linalg.LinAlgError:  # Sizes this close determine only one parameter.
        return None
    return (float(a), float(b)), (float(c), float(d))


Places = npt.NDArray[np.intp]
STEP = 0.25  # between ratios of the grid, as logarithms
FEWEST = 3  # least number of sizes for a line
CANDIDATES, CLOSE, ROUNDING = 4, 1.5, 1e-6
"""Errors are nearly exact: return at most CANDIDATES splits with errors up to CLOSE times the least
one, plus ROUNDING, the error of the grid for lines without noise."""
PAYS = 20.0
"""A second line must reduce the sum of squared errors by more than this factor.

It adds three parameters and the choice of the split. At 6 to 12 sizes these reduce the squared
errors of pure noise by this factor in some 3 % of trials (test).
"""
CLEARLY = 0.9
"""One line suffices if its error is less than this share of PAYS times that of two."""


class Splits:
    """Squared errors of all splits of ascending sizes into two lines."""

    def __init__(self, sizes: Sequence[float], times_s: Sequence[float]) -> None:
        size = np.asarray(sizes, dtype=float)
        low = math.log(size[0]) - BEYOND
        high = math.log(size[-1]) + BEYOND
        ratios = np.exp(np.linspace(low, high, math.ceil((high - low) / STEP) + 1))[:, None]
        model = ratios + size
        left = np.log(times_s) - np.log(model)
        left -= left.mean(axis=1, keepdims=True)
        share = ratios / model  # The derivative of the model's logarithm by that of the ratio.
        terms = np.stack([left, left * left, share, share * share, share * left])
        self._sums = np.concatenate([np.zeros((*terms.shape[:2], 1)), terms.cumsum(axis=2)], axis=2)

    def best(self, left_out: int | None = None) -> list[int]:
        """Return the best splits, at most CANDIDATES, as the number of sizes of the first line.

        [] if one line clearly suffices. The size of index `left_out` is left out.
        """
        sums = self._sums
        if left_out is not None:
            term = sums[:, :, [left_out + 1]] - sums[:, :, [left_out]]
            parts = (sums[:, :, : left_out + 1], sums[:, :, left_out + 2 :] - term)
            sums = np.concatenate(parts, axis=2)
        count = sums.shape[2] - 1
        places = np.arange(FEWEST, count - FEWEST + 1)
        if not len(places):
            return []
        below, whole = sums[:, :, FEWEST : count - FEWEST + 1], sums[:, :, [count]]
        errors = least_errors(below, places) + least_errors(whole - below, count - places)
        if float(least_errors(whole, np.array([count]))[0]) < CLEARLY * PAYS * errors.min():
            return []
        in_order = np.argsort(errors, kind="stable")[:CANDIDATES]
        is_close = errors[in_order] <= CLOSE * errors.min() + ROUNDING
        return [int(place) for place in places[in_order[is_close]]]


def least_errors(sums: Array, counts: Places) -> Array:
    """Return the least squared errors of lines, each fitted to `counts` sizes: [line].

    Args:
        sums: cumulative sums of each line: [term][ratio][line].
    """
    errors = sums[1] - sums[0] ** 2 / counts
    nearest = errors.argmin(axis=0)
    lines = np.arange(len(counts))
    left, _, share, squares, products = sums[:, nearest, lines]
    steepness = squares - share**2 / counts
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (products - share * left / counts) ** 2 / steepness
    refined = errors[nearest, lines] - np.where(steepness > 0, gain, 0.0)
    return np.asarray(np.maximum(refined, 0.0))


FAR_OFF = 0.25
"""Relative error of the model above which a size is marked."""
MOST = 100  # largest number of leave-one-out fits
EXACT = 1e-9  # sum of squared errors of an exact line


@dataclass(frozen=True)
class Fit:
    """One line, or two in ascending order of size if the protocol changes with the size."""

    lines: tuple[FittedLine, ...]

    def seconds(self, num_bytes: float) -> float:
        return float(self.all_seconds([num_bytes])[0])

    def all_seconds(self, sizes: Sequence[float]) -> Array:
        """Compute the time of a message of each size: [size]."""
        size = np.asarray(sizes, dtype=float)
        times_s = np.asarray(self.lines[0].latency_s + self.lines[0].byte_s * size)
        for line in self.lines[1:]:
            times_s = np.where(size >= line.low_bytes, line.latency_s + line.byte_s * size, times_s)
        return times_s

    def errors(self, sizes: Sequence[float], times_s: Sequence[float]) -> list[float]:
        """Compute the error of the model at each measured time, as a share of that time."""
        errors: list[float] = (self.all_seconds(sizes) / np.asarray(times_s) - 1).tolist()
        return errors

    def r_squared(self, sizes: Sequence[float], times_s: Sequence[float]) -> float | None:
        """Compute R² of logarithms, since sizes span decades; None if all times are equal."""
        logs = np.log(times_s)
        spread = float(((logs - logs.mean()) ** 2).sum())
        missed = float(((np.log(self.all_seconds(sizes)) - logs) ** 2).sum())
        return 1 - missed / spread if spread else None


def fit(sizes: Sequence[float], times_s: Sequence[float]) -> Fit:
    """Fit one line, or two at the best split if these reduce the error enough (PAYS)."""
    points = sorted(zip(sizes, times_s, strict=True))
    size = [size for size, _ in points]
    time = [time for _, time in points]
    return best_of(size, time, Splits(size, time).best())


def best_of(sizes: Sequence[float], times_s: Sequence[float], places: Sequence[int]) -> Fit:
    """Fit one line, or two at the best of some splits if these reduce the error enough."""
    single = Fit((line_through(sizes, times_s),))
    if not places:
        return single
    pairs = [split_at(sizes, times_s, place) for place in places]
    double = min(pairs, key=lambda pair: squared_log_error(pair, sizes, times_s))
    if (
        squared_log_error(single, sizes, times_s)
        > PAYS * squared_log_error(double, sizes, times_s) + EXACT
    ):
        return double
    return single


def split_at(sizes: Sequence[float], times_s: Sequence[float], cut: int) -> Fit:
    first = line_through(sizes[:cut], times_s[:cut])
    second = line_through(sizes[cut:], times_s[cut:], low_bytes=sizes[cut])
    return Fit((first, second))


def choose_left_out(sizes: Sequence[float]) -> list[int]:
    """Return the indexes of at most MOST of ascending sizes, about evenly spaced in logarithms."""
    if len(sizes) <= MOST:
        return list(range(len(sizes)))
    logs = np.log(sizes)
    even = np.linspace(logs[0], logs[-1], MOST)
    above = np.searchsorted(logs, even).clip(1, len(sizes) - 1)
    nearest = above - (even - logs[above - 1] < logs[above] - even)
    return sorted(set(nearest.tolist()))


def squared_log_error(model: Fit, sizes: Sequence[float], times_s: Sequence[float]) -> float:
    """Sum the squared logarithms of model / time, the objective of the fit."""
    missed = np.log(model.all_seconds(sizes) / np.asarray(times_s))
    return float(missed @ missed)


def leave_one_out_errors(sizes: Sequence[float], times_s: Sequence[float]) -> list[float | None]:
    """Compute the leave-one-out error of the fit at each time, as a share of that time.

    None for the smallest and the largest size, where the fit would extrapolate, and for sizes that
    `choose_left_out` does not select.
    """
    errors: list[float | None] = [None] * len(sizes)
    if len(sizes) <= FEWEST:
        return errors
    order = sorted(range(len(sizes)), key=lambda place: sizes[place])
    size = [sizes[place] for place in order]
    time = [times_s[place] for place in order]
    splits = Splits(size, time)
    for index in choose_left_out(size):
        if size[0] < size[index] < size[-1]:
            places = splits.best(left_out=index)
            rest = best_of(drop_index(size, index), drop_index(time, index), places)
            errors[order[index]] = rest.seconds(size[index]) / time[index] - 1
    return errors


def drop_index(values: Sequence[float], index: int) -> list[float]:
    return [*values[:index], *values[index + 1 :]]
