"""Merge points that were measured several times, and group those that may be compared.

The unit is the run: a sweep, or one repetition within a sweep of `repeat=6`, in fresh processes.
Samples of several runs are never pooled, because runs of identical code differ by more than the
interval within any one of them.

Each group has a suffix for the name of its file. The suffix is "" where there is only one group.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.records.columns import METRICS
from analysis.table.combine import HARDWARE_AND_SOFTWARE, PROVENANCE, identity_columns
from analysis.table.groups import Groups, Numbers
from benchkit.statistics.intervals import FEWEST_QUARTILES, Array
from benchkit.statistics.judgement import AHEAD, BEHIND, judge_speedup

FEWEST_RUNS = 6
"""Fewer medians have no interval of 95 % (benchkit.statistics.intervals.median_interval)."""


def interval_columns(metric: str) -> tuple[str, str, str, str]:
    """Return the columns of a metric's interval, low and high, and of its range.

    A table need not have them: "overlap_low", "overlap_high", "overlap_range_low", … of "overlap".
    """
    if metric == "median_s":
        return "ci_low_s", "ci_high_s", "range_low_s", "range_high_s"
    name, unit = (metric[:-2], "_s") if metric.endswith("_s") else (metric, "")
    low, high, range_low, range_high = (
        f"{name}_{end}{unit}" for end in ("low", "high", "range_low", "range_high")
    )
    return low, high, range_low, range_high


INTERVALS = {
    name: interval_columns(name)
    for name in ("median_s", "warm_s", "paired_speedup", "overlap", "speedup", "turns_ratio")
}
"""Metrics that have an interval or a range of their own."""
PAIRED_SPEEDUP = "paired_speedup"
"""Over several runs: the ratio of the medians of baseline and case, which are shown beside it."""
RATES = tuple(metric.name for metric in METRICS if metric.is_rate)
"""Over several runs these are the rates at the median time."""
SPREADS = frozenset(("rel_ci", *(name for names in INTERVALS.values() for name in names)))
"""Columns that over several runs are computed from all of them, or are empty."""
PLACE, MACHINE = ("backend", "device"), ("host", *HARDWARE_AND_SOFTWARE)
INTERLEAVING_CHANGES = "interleaving with other cases changed its time, see turns_ratio"
REPETITION = r"#\d+$"
"""Ends the names of later repetitions of a sweep (`analysis.records.paths.run_of`)."""
NO_METRICS = ("status", "straggler_rank", "num_runs", "num_points")


def aggregate_runs(rows: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Merge all rows that are equal in some columns into one row each, in order of time.

    Repetitions within one run are first reduced to their median. Metrics are then medians over the
    runs, with an interval of these from FEWEST_RUNS on. A row that was measured once keeps its own
    interval, which is within the run. Where a point failed in some runs only, the other runs count,
    and `warning` says so. Texts are those of the latest run.

    Args:
        rows: of the combined table, equal in all identity columns except those named.
        by: columns that identify points.

    Returns:
        The rows with the further columns `num_runs` and `num_points` (both count measured points
        only), and with the extremes over all points in the range columns of INTERVALS. The extremes
        are empty for a point that was measured once.
    """
    rows = add_run_columns(rows)
    in_time = pd.Series(rows["started_at"].array).sort_values(kind="stable").index.to_numpy()
    keys = rows[list(by)].iloc[in_time]
    point = keys.groupby(list(by), dropna=False, sort=False).ngroup().to_numpy()
    points = Groups(point)
    if len(points) == len(rows):
        return rows.iloc[in_time].copy()  # one piece of memory, to which columns are added fast
    measured = (rows["status"] == "ok").to_numpy(bool)[in_time]
    is_lost = points.sums(measured) == 0  # of these the latest failure counts
    is_used = measured | (is_lost[point] & (np.arange(len(rows)) == points.last_positions[point]))
    used = in_time[is_used]
    of_used = Groups(point[is_used])
    warning = merge_warnings(rows.iloc[in_time][["status", "warning"]], points)
    latest = rows.iloc[used[of_used.last_positions]]
    latest = latest.assign(warning=pd.Series(warning, latest.index, dtype=object))
    repeated_points = np.flatnonzero(of_used.sizes > 1)
    if len(repeated_points):
        fixed = {*identity_columns(rows), *PROVENANCE, *range_columns(rows), *NO_METRICS, *by}
        metrics = [name for name in rows if name not in fixed]
        is_again = of_used.sizes[of_used.codes] > 1
        repeated_rows = rows[[*metrics, "run", "num_points"]].iloc[used[is_again]]
        merged = aggregate_points(
            repeated_rows, Groups(np.searchsorted(repeated_points, of_used.codes[is_again]))
        )
        latest = replace_metrics(latest, repeated_points, merged)
    return latest.copy()


def aggregate_repetitions(table: pd.DataFrame) -> pd.DataFrame:
    """Merge the repetitions of a point within each sweep into one row, for tables.

    Returns:
        The table, in its order. Where sweeps have repetitions, with `within_share` (the runs'
        median `rel_ci`) and `between_share` (half the range of their medians, over its median).
    """
    runs = table["run"].astype("string")
    if (sweeps := runs.str.replace(REPETITION, "", regex=True)).equals(runs):
        return table
    named = table.assign(sweep=sweeps, within_share=table["rel_ci"])
    keys = [*identity_columns(table), "slowed_by", "sweep"]
    point = named.groupby(keys, dropna=False, sort=False).ngroup()
    rows = aggregate_runs(named.assign(point=point), "sweep", "point")
    between = (rows["range_high_s"] - rows["range_low_s"]) / 2 / rows["median_s"]
    position = named.groupby("run", dropna=False).cumcount().groupby(point).transform("max")
    sweep = pd.Series(pd.factorize(sweeps)[0], named.index)
    merged = rows.assign(run=rows["sweep"], between_share=between, sweep=sweep, place=position)
    merged = merged.sort_values(["sweep", "place"]).drop(columns=["sweep", "place", "point"])
    low, high = (pd.to_numeric(merged[f"turns_ratio_{bound}"]) for bound in ("low", "high"))
    doubts = [
        INTERLEAVING_CHANGES
        if interval[0] > 0 and judge_speedup(*interval) in (AHEAD, BEHIND)
        else doubt
        for doubt, *interval in zip(merged["doubt"], low, high, strict=True)
    ]
    return merged.assign(doubt=doubts)


def range_columns(rows: pd.DataFrame) -> list[str]:
    return [name for value, names in INTERVALS.items() if value in rows for name in names[2:]]


def add_run_columns(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of ranges, num_runs and num_points, those that are missing."""
    measured = (rows["status"] == "ok").astype(int)
    defaults = dict.fromkeys(range_columns(rows), math.nan)
    defaults |= dict.fromkeys(("num_runs", "num_points"), measured)
    new = {name: value for name, value in defaults.items() if name not in rows}
    return pd.concat([rows, pd.DataFrame(new, index=rows.index)], axis="columns")


def replace_metrics(
    rows: pd.DataFrame, positions: Numbers, metrics: Mapping[str, npt.NDArray[Any]]
) -> pd.DataFrame:
    """Replace metrics of points that were measured several times.

    Args:
        rows: one per point.
        positions: of these points.
        metrics: from `aggregate_points`. NaN keeps the row's own, except in SPREADS.
    """
    changed: dict[str, Any] = {}
    for name, values in metrics.items():
        is_new = np.ones(len(values), bool) if name in SPREADS else pd.notna(values)
        if not is_new.any():
            continue
        old, changed_positions = rows[name], positions[is_new]
        if old.dtype == values.dtype == float:
            changed[name] = old.to_numpy(copy=True)
            changed[name][changed_positions] = values[is_new]
        else:
            new = pd.Series(np.nan, rows.index, values.dtype)
            new.iloc[changed_positions] = values[is_new]
            changed[name] = old.where(~np.isin(np.arange(len(rows)), changed_positions), new)
    return rows.assign(**changed)


def merge_warnings(rows: pd.DataFrame, points: Groups) -> list[str | None]:
    """Join the warnings of each point, and count failures where it also succeeded."""
    has_remark = (rows["warning"].notna() | (rows["status"] != "ok")).to_numpy(bool)
    has_remark = (points.sums(has_remark) > 0)[points.codes]
    remarked, cells_of_point = rows[has_remark], dict[int, list[tuple[str, Any]]]()
    cells = zip(remarked["status"], remarked["warning"], strict=True)
    for point, status_and_warning in zip(points.codes[has_remark].tolist(), cells, strict=True):
        cells_of_point.setdefault(point, []).append(status_and_warning)
    return [
        join_warnings(cells_of_point[point]) if point in cells_of_point else None
        for point in range(len(points))
    ]


def join_warnings(cells: Sequence[tuple[str, Any]]) -> str | None:
    """Join the warnings of a point's rows, given with their statuses; None where it has none."""
    lines = [warning for _, warning in cells if pd.notna(warning)]
    failures = [status for status, _ in cells if status != "ok"]
    if 0 < len(failures) < len(cells):
        statuses = ", ".join(dict.fromkeys(failures))
        lines.append(f"{len(failures)} of {len(cells)} times it failed: {statuses}")
    return "; ".join(dict.fromkeys(lines)) or None


def aggregate_points(rows: pd.DataFrame, points: Groups) -> dict[str, npt.NDArray[Any]]:
    """Compute the columns that change where points were measured several times.

    Args:
        rows: their metrics, `run` and `num_points`, in order of time.

    Returns:
        By column a value per point; NaN where it does not change.
    """
    names, values = numeric_columns(rows.drop(columns=["run", "num_points"]))
    column_index = {name: index for index, name in enumerate(names)}
    time_s, is_rate = values[:, [column_index["median_s"]]], np.isin(names, RATES)
    values[:, is_rate] *= time_s  # rate x time = amount, in each row
    low, high = points.extremes(values)
    is_changed = (high > low) | is_rate
    names_of_runs = rows["run"].fillna("")
    run, known_runs = pd.factorize(names_of_runs)
    pairs, pair = np.unique(points.codes * len(known_runs) + run, return_inverse=True)
    of_runs, runs = Groups(pairs // len(known_runs)), Groups(pair)
    per_run = runs.medians(values)
    medians = of_runs.medians(per_run)
    centre_s = medians[:, [column_index["median_s"]]]
    medians[:, is_rate] /= centre_s
    if PAIRED_SPEEDUP in column_index:
        baselines_s = values[:, [column_index[PAIRED_SPEEDUP]]] * time_s
        medians[:, [column_index[PAIRED_SPEEDUP]]] = (
            of_runs.medians(runs.medians(baselines_s)) / centre_s
        )
    columns = {
        name: np.where(is_changed[:, index], medians[:, index], np.nan)
        for name, index in column_index.items()
    }
    for value, bound_columns in INTERVALS.items():
        if value in column_index:
            index = column_index[value]
            is_again = points.sums(~np.isnan(values[:, index])) > 1
            range_of = (np.where(is_again, extreme[:, index], np.nan) for extreme in (low, high))
            bounds = [*of_runs.intervals(per_run[:, index]), *range_of]
            if value == PAIRED_SPEEDUP:  # the ratio of medians may lie outside the range of ratios
                edges = (np.minimum, np.maximum, np.minimum, np.maximum)
                middle = medians[:, index]
                bounds = [edge(limit, middle) for edge, limit in zip(edges, bounds, strict=True)]
            columns |= dict(zip(bound_columns, bounds, strict=True))
        elif value in rows:
            columns |= dict.fromkeys(bound_columns, np.full(len(points), np.nan))
    return columns | {
        "rel_ci": (columns["ci_high_s"] - columns["ci_low_s"]) / 2 / centre_s[:, 0],
        "num_runs": of_runs.sizes,
        "num_points": points.sums(rows["num_points"].to_numpy()),
        "run": join_run_names(names_of_runs, points),
    }


def numeric_columns(cells: pd.DataFrame) -> tuple[list[str], Array]:
    """Return the columns with numbers, and the median: their names, and [row, column]."""
    columns: dict[str, Array] = {}
    for name, values in cells.items():
        if values.dtype != float:
            values = pd.to_numeric(values, errors="coerce")
        numbers = values.to_numpy(float, na_value=math.nan)
        if name == "median_s" or not np.isnan(numbers).all():
            columns[str(name)] = numbers
    return list(columns), np.column_stack(list(columns.values()))


def join_run_names(runs: pd.Series, points: Groups) -> npt.NDArray[Any]:
    """Join the names of the runs of each point: "monday, tuesday"."""
    names: list[dict[str, None]] = [{} for _ in range(len(points))]
    for number, run in zip(points.codes.tolist(), runs, strict=True):
        names[number][run] = None
    return np.array([", ".join(names_of_point) for names_of_point in names], object)


WITHIN = "within the run"
ONE_RUN = (
    "Each number is of one run; how much it varies from run to run is not known "
    "(measure with repeat=6, or give analysis the folders of several sweeps)."
)
NO_FLOOR = (
    "how much identical runs differ here is not known{share}: "
    "run `python -m benchkit selftest`{hint}"
)
BELOW = f" Below {FEWEST_RUNS} runs there is no interval between runs, only their range."


def fill_with_ranges(rows: pd.DataFrame) -> pd.DataFrame:
    """Fill empty intervals with the range over runs, for plots; see `describe_error_bars`."""
    filled = {}
    for names in INTERVALS.values():
        if names[0] in rows:
            for interval_end, range_end in zip(names[:2], names[2:], strict=True):
                filled[interval_end] = pd.to_numeric(rows[interval_end]).fillna(rows[range_end])
    return rows.assign(**filled).copy()


def describe_error_bars(rows: pd.DataFrame, low: str = "ci_low_s") -> str:
    """Describe the error bars: "95 % interval within the run", "middle half of calls", …

    Args:
        low: the column with the lower ends of the bars.
    """
    runs, points = rows["num_runs"], rows["num_points"]
    [of_range] = [names[2] for names in INTERVALS.values() if names[0] == low]
    is_range = rows[low].eq(rows.get(of_range)) | rows[low].isna()  # see `fill_with_ranges`
    is_known = rows[low].notna() | rows.get(of_range, rows[low]).notna()
    parts, count = ("calls", "num_samples") if low == "ci_low_s" else ("rounds", "num_turns")
    once = points == 1
    ranges = once & is_range & is_known
    halves = ranges & (rows.get(count, runs) >= FEWEST_QUARTILES)  # see `quartiles_or_range`
    repeated = (runs == 1) & (points > 1)
    few = (runs > 1) & (runs < FEWEST_RUNS)
    many = runs >= FEWEST_RUNS
    kinds = [
        f"95 % interval {WITHIN}" if (once & ~is_range).any() else "",
        f"middle half of {parts}" if halves.any() else "",
        f"range of all {parts}" if (ranges & ~halves).any() else "",
        f"range of {format_count_range(points[repeated])} points of one run"
        if repeated.any()
        else "",
        f"range of {format_count_range(runs[few])} runs" if few.any() else "",
        f"95 % interval between {format_count_range(runs[many])} runs" if many.any() else "",
    ]
    return " or ".join(filter(None, kinds)) or "not known"


def format_count_range(numbers: pd.Series) -> str:
    """Format counts: "2", or "2 to 5" where they differ."""
    least, most = int(numbers.min()), int(numbers.max())
    return str(least) if least == most else f"{least} to {most}"


def describe_runs(rows: pd.DataFrame, name: Callable[[Any], str] | None = None) -> Iterator[str]:
    """Yield sentences on the spread between runs, or one that says it is not known.

    Args:
        rows: measured rows from `aggregate_runs`.
        name: names the row with the widest range; without it that row is not named.
    """
    repeated = rows[rows["num_points"] > 1]
    if repeated.empty:
        if len(rows) > 0:
            yield ONE_RUN
        return
    runs = repeated["num_runs"]
    several = f"{format_count_range(runs)} runs" if runs.max() > 1 else "one run"
    widths = (repeated["range_high_s"] - repeated["range_low_s"]) / repeated["median_s"]
    below = BELOW if runs.min() < FEWEST_RUNS else ""
    worst = f" ({name(repeated.loc[widths.idxmax()])})" if name else ""
    yield (
        f"{len(repeated)} of {len(rows)} points were measured "
        f"{format_count_range(repeated['num_points'])} times, "
        f"in {several}; their numbers are medians over the runs. Between its fastest and its "
        f"slowest time a point differs by {widths.median():.0%} of its median (median over the "
        f"points), at worst by {widths.max():.0%}{worst}.{below}"
    )
    if len(repeated) < len(rows):
        yield (
            "The other points are of one run each; how much they vary from run to run is not known."
        )


def describe_floor(table: pd.DataFrame) -> str:
    """Describe how much identical runs differ on the machine of some rows; "" without times."""
    measured = table[table["status"] == "ok"]
    floors = measured["noise_floor"].dropna()
    lines = []
    if len(floors) > 0:
        text = ", ".join(floors.unique())
        lines.append(f"noise floor of this machine: identical runs differ by {text}")
    if num_left := len(measured) - len(floors):
        share = f" for {num_left} of {len(measured)} rows" if len(floors) else ""
        hint = " (--ranks, --backend)" if len(floors) else ""
        lines.append(NO_FLOOR.format(share=share, hint=hint))
    return "; ".join(lines)


def group_equal_except(rows: pd.DataFrame, *varying: str) -> list[tuple[str, pd.DataFrame]]:
    """Group rows that are equal in all identity columns except the columns named."""
    differing = [
        name
        for name in identity_columns(rows)
        if name not in varying and rows[name].nunique(dropna=False) > 1
    ]
    if not differing:
        return [("", rows)]
    named = drop_implied_columns(rows, differing)
    groups = []
    for _, group in rows.groupby(differing, dropna=False):
        values = group[named].iloc[0]
        texts = ["unknown" if pd.isna(value) else str(value) for value in values]
        words = [re.sub("[^0-9A-Za-z.]+", "-", text) for text in texts]
        pairs = "_".join(f"{name}-{word}" for name, word in zip(named, words, strict=True))
        groups.append((f"_{pairs}", group))
    return groups


def drop_implied_columns(
    rows: pd.DataFrame, columns: Sequence[str], beside: Sequence[str] = ()
) -> list[str]:
    """Drop machine columns that are determined by the columns kept before them.

    A laptop and a GPU machine differ in a dozen columns, of which the first is enough.

    Args:
        beside: columns that are shown in any case.
    """
    kept: list[str] = []
    for name in columns:
        given = [*beside, *(column for column in kept if column in (*PLACE, *MACHINE))]
        follows = given and rows.groupby(given, dropna=False)[name].nunique(dropna=False).max() < 2
        if not (follows and name in MACHINE):
            kept.append(name)
    return kept


def group_by_mechanism(rows: pd.DataFrame, *without: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Group as `group_equal_except` does, and by mechanism where several mechanisms slowed ranks.

    Rows without a slowdown have no mechanism. They belong to each group, because the other rows are
    compared with them. For the same reason `slowed_by` is no identity column.
    """
    for suffix, group in group_equal_except(rows, *without):
        slowed_by = group["slowed_by"]
        mechanisms = list(slowed_by.dropna().unique())
        if len(mechanisms) < 2:
            yield suffix, group
            continue
        for name in mechanisms:
            yield f"{suffix}_slowed_by-{name}", group[slowed_by.isna() | (slowed_by == name)]


def add_group_to_title(text: str, suffix: str) -> str:
    """Add the suffix of a group to a title, or to the first line of a text."""
    first, end, rest = text.partition("\n")
    return f"{first} ({suffix.strip('_')}){end}{rest}" if suffix else text
