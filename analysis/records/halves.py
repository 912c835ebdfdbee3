"""Splits samples in two halves in order of time, to tell what persists from what passes."""

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np


def log_halves(runs: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the logarithms of the medians of the first and of the second half, in order of time.

    Args:
        runs: seconds of each run: [run][iteration]. Of several runs the halves are whole runs.
    """
    if len(runs) > 1:
        middle = len(runs) // 2
        halves = [list(chain(*part)) for part in (runs[:middle], runs[middle:])]
    else:
        middle = max(1, len(runs[0]) // 2)
        halves = [list(runs[0][:middle]), list(runs[0][middle:]) or list(runs[0])]
    first, second = (math.log(max(float(np.median(half)), 1e-9)) for half in halves)
    return first, second
