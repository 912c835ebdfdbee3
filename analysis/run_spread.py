"""Describes the spread between runs, for plots and sentences, of rows that `over_runs` merged."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd

from analysis.repetitions import FEWEST_RUNS, INTERVALS

WITHIN = "within the run"
ONE_RUN = (
    "Each figure is of one run; how much it varies from run to run is not known "
    "(measure with repeat=5, or give analysis the folders of several sweeps)."
)
NO_FLOOR = "no noise floor{share}: run `python -m benchkit selftest`{hint}"
BELOW = f" Below {FEWEST_RUNS} runs there is no interval between runs, only their range."


def with_ranges(rows: pd.DataFrame) -> pd.DataFrame:
    """Fill empty intervals with the range over runs, for plots; `bars_of` says which one it is."""
    filled = {}
    for names in INTERVALS.values():
        if names[0] in rows:
            for interval_end, range_end in zip(names[:2], names[2:], strict=True):
                filled[interval_end] = pd.to_numeric(rows[interval_end]).fillna(rows[range_end])
    return rows.assign(**filled).copy()


def bars_of(rows: pd.DataFrame, low: str = "ci_low_s") -> str:
    """Say what the error bars are: "95 % interval within the run", "range of 2 runs", …

    Args:
        rows: those that are shown.
        low: the column with the lower ends of the bars.
    """
    runs, points = rows["num_runs"], rows["num_points"]
    once = (points == 1) & rows[low].notna()
    again = (runs == 1) & (points > 1)
    few = (runs > 1) & (runs < FEWEST_RUNS)
    many = runs >= FEWEST_RUNS
    found = [
        f"95 % interval {WITHIN}" if once.any() else "",
        f"range of {counted(points[again])} points of one run" if again.any() else "",
        f"range of {counted(runs[few])} runs" if few.any() else "",
        f"95 % interval between {counted(runs[many])} runs" if many.any() else "",
    ]
    return " or ".join(filter(None, found)) or "too few samples for an interval"


def counted(numbers: pd.Series) -> str:
    """Format counts: "2", or "2 to 5" where they differ."""
    least, most = int(numbers.min()), int(numbers.max())
    return str(least) if least == most else f"{least} to {most}"


def describe_runs(rows: pd.DataFrame, name: Callable[[Any], str] | None = None) -> Iterator[str]:
    """Yield sentences on the spread between runs, or one that says it is not known.

    Args:
        rows: measured rows that `over_runs` merged.
        name: names the row with the widest range; without it that row is not named.
    """
    again = rows[rows["num_points"] > 1]
    if again.empty:
        if len(rows) > 0:
            yield ONE_RUN
        return
    runs = again["num_runs"]
    several = f"{counted(runs)} runs" if runs.max() > 1 else "one run"
    widths = (again["range_high_s"] - again["range_low_s"]) / again["median_s"]
    below = BELOW if runs.min() < FEWEST_RUNS else ""
    worst = f" ({name(again.loc[widths.idxmax()])})" if name else ""
    yield (
        f"{len(again)} of {len(rows)} points were measured {counted(again['num_points'])} times, "
        f"in {several}; their figures are medians over the runs. Between its fastest and its "
        f"slowest time a point differs by {widths.median():.0%} of its median (median over the "
        f"points), at worst by {widths.max():.0%}{worst}.{below}"
    )
    if len(again) < len(rows):
        yield (
            "The other points are of one run each; how much they vary from run to run is not known."
        )


def describe_floor(table: pd.DataFrame) -> str:
    """Say how much identical runs differ on the machine of some rows; "" where none is measured."""
    measured = table[table["status"] == "ok"]
    known = measured["noise_floor"].dropna()
    lines = []
    if len(known) > 0:
        floors = ", ".join(known.unique())
        lines.append(f"noise floor of this machine: identical runs differ by {floors}")
    if num_left := len(measured) - len(known):
        share = f" for {num_left} of {len(measured)} rows" if len(known) else ""
        hint = " (--ranks, --backend)" if len(known) else ""
        lines.append(NO_FLOOR.format(share=share, hint=hint))
    return "; ".join(lines)
