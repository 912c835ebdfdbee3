"""Describes the noise in the samples of a case: spikes on all ranks or on some, and slow modes."""

from typing import Any

import numpy as np

from benchkit.statistics.intervals import Array
from benchkit.statistics.modes import find_modes
from benchkit.statistics.quantiles import medians

SPIKE = 5.0
"""A spike is a sample of a rank beyond this multiple of the rank's median."""
FIGURES = ("spikes_all_share", "spikes_some_share", "slow_mode_ratio", "slow_mode_share")


def figures(samples: Any, iterations: Array) -> dict[str, float | None]:
    """Compute the FIGURES of a case.

    Args:
        samples: [rank][iteration], in seconds.
        iterations: [iteration], the time of each iteration in seconds.

    Returns:
        spikes_all_share: the share of iterations in which every rank had a spike, as when the
            machine was busy.
        spikes_some_share: the share of iterations in which some ranks had a spike, but not all.
        slow_mode_ratio: how many times as long the slower iterations take, where the times have two
            modes; else None.
        slow_mode_share: the share of the slower iterations; None as above.
    """
    times = np.asarray(samples, dtype=np.float64)
    spikes = times > SPIKE * medians(times)[:, None]
    everywhere, anywhere, count = spikes.all(axis=0), spikes.any(axis=0), spikes.shape[1]
    modes = find_modes(iterations)
    return {
        "spikes_all_share": int(everywhere.sum()) / count,
        "spikes_some_share": int((anywhere & ~everywhere).sum()) / count,
        "slow_mode_ratio": modes.slow_s / modes.fast_s if modes else None,
        "slow_mode_share": modes.slow_share if modes else None,
    }
