"""Decides how many samples a block has, and when a case has enough of them."""

import math

import numpy as np

from benchkit.api.groups import MeasureConfig
from benchkit.measure.measurement import Measurement
from benchkit.statistics.intervals import FEWEST_SAMPLES, series_interval
from benchkit.statistics.summary import relative_half_width

FEWEST_TO_STOP = 2 * FEWEST_SAMPLES
"""Fewest samples of a case that its target ends. Looking after each block picks the series whose
interval is narrow by chance, and chance is greatest where samples are few."""


def block_size(typical_s: float, config: MeasureConfig) -> int:
    """Returns an odd number of samples that fill block_seconds and leave room for min_blocks.

    The median of an even number of samples is a mean of two samples. For skewed times it estimates
    something else than the median.

    Args:
        typical_s: seconds that one sample takes; 0 if not known yet.
        config: the limits.
    """
    size = max(1, min(fitting(typical_s, config), config.max_iterations // config.min_blocks))
    return size if size % 2 else size - 1


def fitting(typical_s: float, config: MeasureConfig) -> int:
    """Returns how many samples of `typical_s` seconds fill block_seconds; 1 if it is not known."""
    return math.ceil(config.block_seconds / typical_s) if typical_s > 0 else 1


def stop(measurement: Measurement, config: MeasureConfig, single_case: bool) -> bool:
    """Returns after a block whether the case is done, and notes why in the measurement.

    Args:
        measurement: the samples so far; `stopped_by` and `converged` are set.
        config: the target and the limits.
        single_case: whether the case takes turns with no other; then min_blocks does not count.
    """
    if config.target_rel_ci is not None:
        times = measurement.times()
        width = relative_half_width(series_interval(times), float(np.median(times)))
        measurement.converged = width is not None and width <= config.target_rel_ci
        has_enough_blocks = single_case or len(measurement.blocks) >= config.min_blocks
        has_enough_samples = measurement.num_samples() >= FEWEST_TO_STOP
        if measurement.converged and has_enough_blocks and has_enough_samples:
            measurement.stopped_by = "target_rel_ci"
            return True
    if measurement.num_samples() >= config.max_iterations:
        measurement.stopped_by = "max_iterations"
    elif measurement.elapsed_s >= config.max_seconds:
        measurement.stopped_by = "max_seconds"
    return bool(measurement.stopped_by)
