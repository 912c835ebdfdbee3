"""The one rule for what is too much to draw: how much, what is drawn instead, and that it says so.

- More than MOST_SERIES series are merged: those that differ only in the settings with the most
  values become one, their median, with bars from the lowest to the highest of them.
- Of series that are steps of one quantity, such as sizes, MOST_SERIES are drawn, evenly apart.
- More than MOST_POINTS points beside each other have no names. They are drawn in order of value.
- Of the plots of one module, which differ in the settings that their names tell, the first
  MOST_PLOTS are drawn.

Captions say what was merged or left out, a line on stderr how many plots were. Tables and CSV files
have everything.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pandas as pd

MOST_SERIES = 16
"""As many as a legend beside a panel holds."""
MOST_POINTS = 40
MOST_PLOTS = 18
Step = TypeVar("Step")


def thinned(steps: Sequence[Step]) -> list[Step]:
    """Return at most MOST_SERIES of some steps, evenly apart, with the first and the last."""
    count = min(len(steps), MOST_SERIES)
    return [steps[round(place)] for place in np.linspace(0, len(steps) - 1, count)]


def note_thinned(steps: Sequence[object], what: str) -> str:
    """Say for a caption how many steps are drawn; "" where all are.

    Args:
        steps: all of them.
        what: they are, in the plural.
    """
    return f"; {MOST_SERIES} of {len(steps)} {what}" if len(steps) > MOST_SERIES else ""


def told_apart(rows: pd.DataFrame, always: list[str], settings: list[str]) -> list[str]:
    """Select the settings that tell series apart without making more than MOST_SERIES of them.

    Settings with few values come first, because a reader compares these.

    Args:
        rows: of one plot.
        always: columns that tell series apart in any case.
        settings: columns that may be merged.
    """
    kept: list[str] = []
    for name in sorted(settings, key=lambda name: rows[name].nunique(dropna=False)):
        columns = [*always, *kept, name]
        if rows.groupby(columns, dropna=False).ngroups > MOST_SERIES:
            break
        kept.append(name)
    return kept


def merged(rows: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Merge the rows that are equal in some columns: their median, their lowest and their highest.

    Args:
        rows: one per series and place on the axis.
        columns: what the plot tells apart.

    Returns:
        These columns, the times (the lowest and the highest as the ends of an interval), the bus
        bandwidth at the median time, and the names of the devices.
    """
    groups = rows.groupby(columns, dropna=False, sort=False)
    times = groups["median_s"].agg(["median", "min", "max"])
    moved = rows.assign(moved=rows["busbw_gb_per_s"] * rows["median_s"])
    devices = groups["device_name"].agg(lambda names: ", ".join(names.dropna().unique()) or None)
    found = pd.DataFrame(
        {
            "median_s": times["median"],
            "ci_low_s": times["min"],
            "ci_high_s": times["max"],
            "busbw_gb_per_s": moved.groupby(columns, dropna=False, sort=False)["moved"].median()
            / times["median"],
            "device_name": devices,
        }
    )
    return found.reset_index()
