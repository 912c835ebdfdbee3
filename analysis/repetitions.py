"""Merges points that were measured several times into one row each.

The unit is the run: a sweep, or one repetition within a sweep of `repeat=5`, in fresh processes.
Samples of several runs are never pooled, because runs of identical code differ by more than the
interval within any one of them.
"""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.table import PROVENANCE, identity_columns
from benchkit.statistics.intervals import order_below

FEWEST_RUNS = 6
"""Fewer medians have no interval of 95 % (benchkit.statistics.intervals.median_interval)."""
INTERVALS = {
    "median_s": ("ci_low_s", "ci_high_s", "range_low_s", "range_high_s"),
    **{
        name: (f"{name}_low", f"{name}_high", f"{name}_range_low", f"{name}_range_high")
        for name in ("paired_speedup", "overlap", "speedup", "turns_ratio")
    },
}
"""Figures with the two ends of their interval, and the two ends of their range over runs."""
RATES = (
    "algbw_gb_per_s", "busbw_gb_per_s", "useful_tflop_per_s", "executed_tflop_per_s",
    "tokens_per_second", "mfu_full", "mfu_causal", "hfu_full", "efficiency",
)  # fmt: skip
"""Figures inversely proportional to the time; over several runs they are those of its median."""
SPREADS = frozenset(("rel_ci", *(name for names in INTERVALS.values() for name in names)))
"""Columns that over several runs are computed from all of them, or are empty."""
REPETITION = r"#\d+$"
"""Ends the names of later repetitions of a sweep (`analysis.records.harvest.run_of`)."""
NO_FIGURES = ("status", "straggler_rank", "num_runs", "num_points")


def over_runs(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Merge all rows that are equal in some columns into one row each, in order of time.

    Repetitions within one run are first reduced to their median. Figures are then medians over the
    runs. Their intervals are those of the medians of the runs, and there is none below FEWEST_RUNS.
    A row that was measured once keeps its own interval, which is within the run. Where a point
    failed in some runs only, the other runs count, and `warning` says so. Text, such as how a split
    came out, is that of the latest run.

    Args:
        rows: of the combined table, equal in all identity columns except those named.
        columns: the columns that tell the points apart.

    Returns:
        The rows with the further columns `num_runs` and `num_points` (both count measured points
        only), and with the extremes over all points in the range columns of INTERVALS. The extremes
        are empty for a point that was measured once.
    """
    rows = with_run_columns(rows).sort_values("started_at", kind="stable")
    if not rows.duplicated(list(columns)).any():
        return rows.copy()  # one piece of memory: pandas warns of columns added to many pieces
    point = rows.groupby(list(columns), dropna=False, sort=False).ngroup()
    measured = rows["status"] == "ok"
    latest_failure = ~measured.groupby(point).transform("any") & ~point.duplicated(keep="last")
    used = rows[measured | latest_failure]
    used_point = point[used.index]
    latest = used[~used_point.duplicated(keep="last")].assign(warning=notes(rows, point))
    fixed = {*identity_columns(rows), *PROVENANCE, *range_columns(rows), *NO_FIGURES, *columns}
    again = used_point.duplicated(keep=False)
    figures = [name for name in rows if name not in fixed]
    latest_point = point[latest.index]
    merged = over_points(used[again], used_point[again], figures)
    result = with_figures(latest, latest_point, merged)
    return result.iloc[latest_point.argsort(kind="stable")].copy()


def over_repetitions(table: pd.DataFrame) -> pd.DataFrame:
    """Merge the repetitions of a point within each sweep into one row, for tables.

    Returns:
        The table, in its order. Where sweeps have repetitions, with `within_share` (the runs'
        median `rel_ci`) and `between_share` (half the range of their medians, over its median).
    """
    runs = table["run"].astype("string")
    if (sweeps := runs.str.replace(REPETITION, "", regex=True)).equals(runs):
        return table
    named = table.assign(sweep=sweeps, within_share=table["rel_ci"])
    point = named.groupby([*identity_columns(table), "sweep"], dropna=False, sort=False).ngroup()
    rows = over_runs(named.assign(point=point), "sweep", "point")
    between = (rows["range_high_s"] - rows["range_low_s"]) / 2 / rows["median_s"]
    place = named.groupby("run", dropna=False).cumcount().groupby(point).transform("max")
    sweep = pd.Series(pd.factorize(sweeps)[0], named.index)
    found = rows.assign(run=rows["sweep"], between_share=between, sweep=sweep, place=place)
    return found.sort_values(["sweep", "place"]).drop(columns=["sweep", "place", "point"])


def range_columns(rows: pd.DataFrame) -> list[str]:
    """Return the range columns of all figures that the rows have."""
    return [name for value, names in INTERVALS.items() if value in rows for name in names[2:]]


def with_run_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of ranges, num_runs and num_points, as far as they are not there yet."""
    measured = (rows["status"] == "ok").astype(int)
    defaults = dict.fromkeys(range_columns(rows), math.nan)
    defaults |= dict.fromkeys(("num_runs", "num_points"), measured)
    new = {name: value for name, value in defaults.items() if name not in rows}
    return pd.concat([rows, pd.DataFrame(new, index=rows.index)], axis="columns")


def with_figures(rows: pd.DataFrame, point: pd.Series, merged: pd.DataFrame) -> pd.DataFrame:
    """Replace figures of points that were measured several times.

    Args:
        rows: one per point.
        point: the number of each row's point.
        merged: what `over_points` returned. NaN keeps the row's own figure, except in SPREADS.
    """
    values = merged.reindex(point).set_axis(rows.index)
    is_kept = values.isna()
    for name in SPREADS.intersection(merged):
        is_kept[name] = ~point.isin(merged.index)
    return rows.assign(**rows[list(merged)].where(is_kept, values))


def notes(rows: pd.DataFrame, point: pd.Series) -> pd.Series:
    """Join the warnings of all rows of each point, and count failures where it also succeeded."""
    few = rows[point.isin(point[rows["warning"].notna() | (rows["status"] != "ok")])]
    of_point: dict[int, list[tuple[str, Any]]] = {}
    for number, *cells in zip(point[few.index], few["status"], few["warning"], strict=True):
        of_point.setdefault(number, []).append(tuple(cells))
    texts = {number: note(found) for number, found in of_point.items()}
    return pd.Series(list(map(texts.get, point)), index=rows.index, dtype=object)


def note(found: Sequence[tuple[str, Any]]) -> str | None:
    """Join the warnings of a point's rows, given with their statuses; None where it has none."""
    lines = [warning for _, warning in found if pd.notna(warning)]
    failed = [status for status, _ in found if status != "ok"]
    if 0 < len(failed) < len(found):
        statuses = ", ".join(dict.fromkeys(failed))
        lines.append(f"{len(failed)} of {len(found)} times it failed: {statuses}")
    return "; ".join(dict.fromkeys(lines)) or None


def over_points(rows: pd.DataFrame, point: pd.Series, figures: list[str]) -> pd.DataFrame:
    """Compute the columns that change where a point was measured several times.

    Args:
        rows: of the points that were measured several times.
        point: the number of each row's point.
        figures: the columns that hold figures.

    Returns:
        One row per point, indexed by its number. NaN means that the column is as it was.
    """
    runs = rows["run"].fillna("")
    numeric = rows[figures].apply(pd.to_numeric, errors="coerce").astype(float)
    rates = [name for name in RATES if name in figures]
    numeric[rates] = numeric[rates].mul(numeric["median_s"], axis="index")
    per_run = numeric.groupby([point, runs], sort=False).median()
    medians = per_run.groupby(level=0, sort=False).median()
    centre = medians["median_s"]
    medians[rates] = medians[rates].div(centre, axis="index")
    of_points = numeric.groupby(point, sort=False)
    differing = of_points.max() > of_points.min()
    differing[rates] = True
    found = medians.where(differing).dropna(axis="columns", how="all")
    for value, names in INTERVALS.items():
        if value in figures:
            ends = of_points[value].agg(["min", "max", "count"])
            ends = ends.where(ends["count"] > 1)
            limits = (*intervals(per_run[value]), ends["min"], ends["max"])
            found = found.assign(**dict(zip(names, limits, strict=True)))
    return found.assign(
        rel_ci=(found["ci_high_s"] - found["ci_low_s"]) / 2 / centre,
        num_runs=per_run.groupby(level=0, sort=False).size(),
        num_points=rows["num_points"].groupby(point, sort=False).sum(),
        run=joined_runs(point, runs),
    ).copy()


def joined_runs(point: pd.Series, runs: pd.Series) -> pd.Series:
    """Join the names of the runs of each point, by its number: "monday, tuesday"."""
    names: dict[int, dict[str, None]] = {}
    for number, run in zip(point, runs, strict=True):
        names.setdefault(number, {})[run] = None
    return pd.Series({number: ", ".join(of) for number, of in names.items()}, dtype=object)


def intervals(medians: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Compute the ends of each point's interval between runs, from its medians by point and run.

    Returns:
        The low and the high ends by point, NaN where the runs are too few.
    """
    ordered, points = medians.dropna().sort_values(), medians.index.unique(level=0)
    groups = ordered.groupby(level=0)
    place, counts = groups.cumcount(), groups.transform("size")
    below = counts.map(order_below)
    lows, highs = ordered[place == below - 1], ordered[place == counts - below]
    return lows.droplevel(1).reindex(points), highs.droplevel(1).reindex(points)
