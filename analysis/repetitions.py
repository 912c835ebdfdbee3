"""Points that were measured several times: one row each, with what is known of the spread between runs.

The unit is the run, one sweep of fresh processes. Samples of several runs are never pooled, because the runs of
identical code differ by more than the interval within any of them says.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd

from analysis.table import PROVENANCE, identity_columns
from benchkit.statistics.intervals import median_interval

FEWEST_RUNS = 6
"""Fewer medians have no order-statistic interval at 95 % (benchkit.statistics.intervals.median_interval)."""
INTERVALS = {
    "median_s": ("ci_low_s", "ci_high_s", "range_low_s", "range_high_s"),
    **{
        name: (f"{name}_low", f"{name}_high", f"{name}_range_low", f"{name}_range_high")
        for name in ("paired_speedup", "overlap", "speedup")
    },
}
"""Figures with their interval, and with the range over runs."""
RATES = (
    "algbw_gb_per_s", "busbw_gb_per_s", "useful_tflop_per_s", "executed_tflop_per_s", "tokens_per_second", "mfu_full",
    "mfu_causal", "hfu_full", "efficiency",
)  # fmt: skip
"""Inversely proportional to the time: of several runs they are at the median time, never a median of rates."""
SPREADS = frozenset(("rel_ci", *(name for names in INTERVALS.values() for name in names)))
"""Columns that of several runs are theirs or none, never those of the latest."""
NO_FIGURES = ("straggler_rank", "num_runs", "num_points")
WITHIN = "within the run"
ONE_RUN = (
    "Each figure is of one run; how much it varies from run to run is not known "
    "(repeat the sweep, and give analysis all folders)."
)
BELOW = f" Below {FEWEST_RUNS} runs there is no interval between runs, only their range."


def over_runs(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """One row for all rows that are equal in some columns, in order of time.

    What one run measured several times is reduced to its median first. Figures are then medians over the runs, and
    their intervals are those of the medians of the runs: none below FEWEST_RUNS. A row that was measured once keeps its
    own interval, which is within the run. Of what failed in some runs only, the others count, and `warning` says so.
    Text, such as how a split came out, is the latest run's.

    Args:
        rows: of the combined table, alike in all that says what was measured but the columns named.
        columns: what tells the points apart.

    Returns:
        The rows with the further columns `num_runs` and `num_points` (of the measured ones), and the extremes over all
        points in the range columns of INTERVALS, None for what was measured once.
    """
    ranges = [name for value, names in INTERVALS.items() if value in rows for name in names[2:]]
    counts = dict.fromkeys(("num_runs", "num_points"), (rows["status"] == "ok").astype(int))
    new = {name: value for name, value in (dict.fromkeys(ranges, math.nan) | counts).items() if name not in rows}
    rows = pd.concat([rows, pd.DataFrame(new, index=rows.index)], axis="columns")  # at once: pandas warns of many
    rows = rows.sort_values("started_at", kind="stable")
    if not rows.duplicated(list(columns)).any():
        return rows
    point = rows.groupby(list(columns), dropna=False, sort=False).ngroup()
    measured = rows["status"] == "ok"
    latest_failure = ~measured.groupby(point).transform("any") & ~point.duplicated(keep="last")
    used = rows[measured | latest_failure]
    result = used[~point[used.index].duplicated(keep="last")].assign(warning=notes(rows, point))
    fixed = {*identity_columns(rows), *PROVENANCE, *NO_FIGURES, *ranges, *columns, "status"}
    again = point[used.index].duplicated(keep=False)
    found = over_points(used[again], point[used.index][again], [name for name in rows if name not in fixed])
    place = point[result.index]
    merged = {name: place.map(found[name]) for name in found}
    changed = place.isin(found.index)
    kept = {name: result[name].where(values.isna(), values) for name, values in merged.items() if name not in SPREADS}
    spreads = {name: result[name].where(~changed, values) for name, values in merged.items() if name in SPREADS}
    return result.assign(**kept, **spreads).iloc[place.argsort(kind="stable")].copy()


def notes(rows: pd.DataFrame, point: pd.Series) -> pd.Series:
    """What all rows of each point were warned of, and how often it failed beside the times it did not."""
    failed = rows["status"] != "ok"
    told = rows["warning"].copy()
    for number in point[(failed | told.notna()) & point.duplicated(keep=False)].unique():
        mine = point == number
        lines = [*rows.loc[mine, "warning"].dropna()]
        if 0 < failed[mine].sum() < mine.sum():
            words = ", ".join(dict.fromkeys(rows.loc[mine & failed, "status"]))
            lines.append(f"{failed[mine].sum()} of {mine.sum()} times it failed: {words}")
        told = told.astype(object).mask(mine, "; ".join(dict.fromkeys(lines)) or None)
    return told


def over_points(rows: pd.DataFrame, point: pd.Series, figures: list[str]) -> pd.DataFrame:
    """By the number of a point that was measured several times, the columns that this changes; NaN: as they were."""
    numeric = rows[figures].apply(pd.to_numeric, errors="coerce").astype(float)
    rates = [name for name in RATES if name in figures]
    numeric[rates] = numeric[rates].mul(numeric["median_s"], axis="index")
    per_run = numeric.groupby([point, rows["run"].fillna("")], sort=False).median()
    medians = per_run.groupby(level=0, sort=False).median()
    medians[rates] = medians[rates].div(medians["median_s"], axis="index")
    differing = numeric.groupby(point, sort=False).nunique() > 1
    differing[rates] = True
    found = medians.where(differing).dropna(axis="columns", how="all")
    for value, names in INTERVALS.items():
        if value in figures:
            ends = numeric[value].groupby(point, sort=False).agg(["min", "max", "count"])
            ends = ends.where(ends["count"] > 1)
            limits = intervals(per_run[value])
            found = found.assign(**dict(zip(names, (*limits, ends["min"], ends["max"]), strict=True)))
    centre = per_run["median_s"].groupby(level=0, sort=False).median()
    return found.assign(
        rel_ci=(found["ci_high_s"] - found["ci_low_s"]) / 2 / centre,
        num_runs=per_run.groupby(level=0, sort=False).size(),
        num_points=rows["num_points"].groupby(point, sort=False).sum(),
        run=rows["run"].fillna("").groupby(point, sort=False).agg(lambda names: ", ".join(dict.fromkeys(names))),
    ).copy()


def intervals(medians: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Low and high ends between the runs, by point, of medians by point and run; NaN where the runs are too few."""
    found = {
        number: median_interval(values.dropna().to_numpy()) or (math.nan, math.nan)
        for number, values in medians.groupby(level=0, sort=False)
    }
    low, high = (pd.Series({number: ends[side] for number, ends in found.items()}) for side in (0, 1))
    return low, high


def with_ranges(rows: pd.DataFrame) -> pd.DataFrame:
    """For plots: the range in place of the interval where runs are too few for one; `bars_of` says which it is."""
    filled = {
        shown: pd.to_numeric(rows[shown]).fillna(rows[within])
        for value, names in INTERVALS.items()
        if names[0] in rows
        for shown, within in zip(names[:2], names[2:], strict=True)
    }
    return rows.assign(**filled).copy()


def bars_of(rows: pd.DataFrame) -> str:
    """What the bars of these rows are, for a caption: "95 % interval within the run", "range of 2 runs", …"""
    runs, points = rows["num_runs"], rows["num_points"]
    many, few = runs >= FEWEST_RUNS, (runs > 1) & (runs < FEWEST_RUNS)
    again = (runs == 1) & (points > 1)
    found = [
        f"95 % interval {WITHIN}" if ((points == 1) & rows["ci_low_s"].notna()).any() else "",
        f"range of {counted(points[again])} points of one run" if again.any() else "",
        f"range of {counted(runs[few])} runs" if few.any() else "",
        f"95 % interval between {counted(runs[many])} runs" if many.any() else "",
    ]
    return " or ".join(filter(None, found)) or "too few samples for an interval"


def counted(numbers: pd.Series) -> str:
    """ "2", or "2 to 5" where they differ."""
    least, most = int(numbers.min()), int(numbers.max())
    return str(least) if least == most else f"{least} to {most}"


def told_of_runs(rows: pd.DataFrame, name: Callable[[Any], str] | None = None) -> Iterator[str]:
    """Sentences on the spread between runs, or that it is not known; of measured rows that `over_runs` made.

    name: how to call the row with the widest range; without, it is not named.
    """
    again = rows[rows["num_points"] > 1]
    if again.empty:
        yield from [ONE_RUN] * (len(rows) > 0)
        return
    several = f"{counted(again['num_runs'])} runs" if again["num_runs"].max() > 1 else "one run"
    widths = (again["range_high_s"] - again["range_low_s"]) / again["median_s"]
    below = BELOW if again["num_runs"].min() < FEWEST_RUNS else ""
    worst = f" ({name(again.loc[widths.idxmax()])})" if name else ""
    yield (
        f"{len(again)} of {len(rows)} points were measured {counted(again['num_points'])} times, in {several}; their "
        f"figures are medians over the runs. Between its fastest and its slowest time a point differs by "
        f"{widths.median():.0%} of its median (median over the points), at worst by {widths.max():.0%}{worst}.{below}"
    )
    if len(again) < len(rows):
        yield "The other points are of one run each; how much they vary from run to run is not known."


def by_fewest_ranks(groups: Iterable[tuple[str, pd.DataFrame]]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Groups of rows with `base_ranks`, the fewest ranks of their workload and scope in their job.

    Speedups are over those, so jobs of a workload that differ in it are of different groups, with a suffix for the
    names of their files; jobs that failed as a whole, whose ranks nobody knows, belong to each.
    """
    job = ["run", "point_id", "started_at", "workload", "scope"]
    for suffix, rows in groups:
        rows = rows.assign(base_ranks=rows.groupby(job, dropna=False)["ranks"].transform("min"))
        if rows.groupby("workload")["base_ranks"].nunique().max() < 2:
            yield suffix, rows
            continue
        unknown = rows["base_ranks"].isna()
        for number in sorted(rows["base_ranks"].dropna().unique()):
            yield f"{suffix}_base_ranks-{number:g}", rows[unknown | (rows["base_ranks"] == number)]
