"""What disturbs the samples of a case: spikes that hit all ranks or only some, and times that come in two kinds."""

from typing import Any

import numpy as np

from benchkit.statistics.intervals import Array
from benchkit.statistics.modes import find_modes

SPIKE = 5.0
"""A rank's sample beyond so many times its median."""
FIGURES = ("spikes_all_share", "spikes_some_share", "slow_mode_ratio", "slow_mode_share")


def figures(samples: Any, iterations: Array) -> dict[str, float | None]:
    """From samples[rank][iteration] and the time of each iteration, in seconds.

    spikes_all_share: of the iterations, in which every rank had a spike, as when the machine was busy;
    spikes_some_share: in which some had, but not all. slow_mode_ratio: where times come in two kinds, how many times
    as long the slower take, and slow_mode_share how many they are.
    """
    times = np.asarray(samples, dtype=np.float64)
    spikes = times > SPIKE * np.median(times, axis=1, keepdims=True)
    everywhere = spikes.all(axis=0)
    modes = find_modes(iterations)
    return {
        "spikes_all_share": float(everywhere.mean()),
        "spikes_some_share": float((spikes.any(axis=0) & ~everywhere).mean()),
        "slow_mode_ratio": modes.slow_s / modes.fast_s if modes else None,
        "slow_mode_share": modes.slow_share if modes else None,
    }
