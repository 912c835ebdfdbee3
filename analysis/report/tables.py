"""Tables of a report on all suites, in Markdown."""

import math
from typing import Any

import pandas as pd

from analysis.records.columns import METRICS
from analysis.records.environments import TOLERANCE
from analysis.records.places import PLACE, STATE
from analysis.report.naming import Namer
from analysis.shared.text import format_number
from analysis.shared.text_table import MOST_ROWS, as_markdown
from analysis.table.combine import format_printed, identity_columns, is_repeated
from analysis.table.repetitions import FEWEST_RUNS, aggregate_runs
from benchkit.record.naming import plus_minus, ratio_interval
from benchkit.statistics.judgement import AHEAD, BEHIND, judge_interval, judge_speedup

FULL_RESULTS_HEAD = (
    "# Full results\n\n"
    "Times are of the slowest rank, per call, latencies from the last rank's start to the last "
    "rank's end. In square brackets is the 95 % interval of the median within the run; in round "
    "ones the range of the calls, of few all and else their middle half, where they are too few "
    "for an interval. Of a point that ran several times in one sweep both are of the runs; "
    "`within a run` is half the width of the interval within a run, `between runs` half the range "
    "of the runs, both as a share of the median. "
    "GB/s are 10^9 bytes per second; `data_size` is in MiB (2^20 bytes).\n\n"
)


def full_results(rows: pd.DataFrame) -> str:
    """Render all rows of a combined table with merged repetitions."""
    return FULL_RESULTS_HEAD + as_markdown(format_printed(rows, MOST_ROWS), total=len(rows))


PER_RANK_HEAD = (
    "# Per rank\n\n"
    "Medians over the samples; busy is what is left of a call when its waiting is taken away.\n\n"
)


def rank_results(per_rank: pd.DataFrame) -> str:
    """Render the ranks of all cases."""
    shown = ranks_for_print(per_rank, MOST_ROWS)
    return PER_RANK_HEAD + as_markdown(shown, "per_rank.csv", len(per_rank))


def ranks_for_print(rows: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Return rows of ranks with times in ms, without constant columns.

    The placement of ranks is in `rank_devices_table`.

    Args:
        most: largest number of rows, the first ones; by default all.
    """
    names = [name for name in rows if name not in (*PLACE, *STATE)]
    differing = [name for name in names if rows[name].nunique(dropna=False) > 1 or name == "rank"]
    shown = rows[differing].iloc[:most]
    in_ms = {name: f"{name.removesuffix('_s')} [ms]" for name in shown if str(name).endswith("_s")}
    return shown.assign(**{name: shown[name] * 1e3 for name in in_ms}).rename(columns=in_ms)


RANK_DEVICES_HEAD = (
    "# Ranks and their devices\n\n"
    "What differs between the ranks of a run. Clocks, power and temperature are medians over its "
    f"cases, and shown where ranks differ by more than {TOLERANCE:.0%}.\n\n"
)
RANK_DEVICES_UNITS = {
    "gpu_sm_mhz": "SM clock [MHz]", "gpu_mem_mhz": "memory clock [MHz]",
    "gpu_power_w": "power [W]", "gpu_temperature_c": "temperature [°C]",
}  # fmt: skip


def rank_devices_table(per_rank: pd.DataFrame) -> str | None:
    """Render the placement and the GPUs of the ranks of each run; None where no rank differs."""
    if per_rank.empty:
        return None
    tables = []
    for run, of_run in per_rank.groupby("run", dropna=False, sort=False):
        differing = rank_device_rows(of_run)
        if len(differing.columns) > 1:
            tables.append(f"## {run}\n\n" + as_markdown(differing))
    return RANK_DEVICES_HEAD + "\n\n".join(tables) if tables else None


def rank_device_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per rank and placement, with the columns that differ."""
    place = ["rank", *(name for name in PLACE if name in rows)]
    state = [name for name in STATE if name in rows]
    by_rank = rows.groupby(place, dropna=False, as_index=False)[state].median()
    kept = ["rank", *(name for name in place[1:] if by_rank[name].nunique(dropna=False) > 1)]
    for name in state:
        lowest, highest = by_rank[name].min(), by_rank[name].max()
        if highest - lowest > TOLERANCE * lowest:
            kept.append(name)
    return by_rank[kept].rename(columns=RANK_DEVICES_UNITS)


TURNS_HEAD = (
    "# Interleaving\n\n"
    "The baseline and the best case of each job were timed again, each isolated in fresh ranks. "
    "Interleaved / isolated is the ratio of the medians, above 1 where interleaving costs "
    "time. Its interval is "
    f"between runs; below {FEWEST_RUNS} runs there is none, and the noise floor of the machine "
    "says what two identical runs differ by. All tables and plots have the speedups of interleaved "
    "cases.\n\n"
)


def turns_table(table: pd.DataFrame) -> str | None:
    """Render the cases that were timed both interleaved and isolated; None without any."""
    measured = table[table["turns_ratio"].notna()]
    if measured.empty:
        return None
    points = aggregate_runs(measured, *identity_columns(table))
    name = Namer(points)
    rows = [
        {
            "case": name(row),
            "interleaved [ms]": row["median_s"] * 1e3,
            "isolated [ms]": row["alone_s"] * 1e3,
            "interleaved / isolated": row["turns_ratio"],
            "95 % interval": interval(row),
            "runs": row["num_runs"],
            "interleaving": verdict(row),
            "speedup interleaved": row["paired_speedup"],
            "speedup isolated": row["alone_speedup"],
        }
        for _, row in points.iterrows()
    ]
    return TURNS_HEAD + as_markdown(rows)


def interval(row: Any) -> str:
    if pd.isna(row["turns_ratio_low"]):
        return "too few runs"
    return ratio_interval(row["turns_ratio_low"], row["turns_ratio_high"])


def verdict(row: Any) -> str:
    """Judge whether interleaving changed the time of a row, by its interval or the noise floor."""
    word = "slower" if row["turns_ratio"] > 1 else "faster"
    if pd.notna(row["turns_ratio_low"]):
        return word if is_changed(row) else "no change that shows"
    floor = row["identical_runs"]
    if pd.isna(floor):
        return f"{word}, or chance: no noise floor"
    if not is_changed(row):
        return f"within the noise floor ({plus_minus(floor)})"
    return f"{word}, beyond the noise floor ({plus_minus(floor)})"


def is_changed(row: Any) -> bool:
    """Return whether `turns_ratio` of a row of `aggregate_runs` differs significantly from 1.

    The test uses the interval between runs or, with too few runs, the noise floor. Without a
    noise floor no ratio is significant.
    """
    if pd.notna(row["turns_ratio_low"]):
        return judge_speedup(row["turns_ratio_low"], row["turns_ratio_high"]) in (AHEAD, BEHIND)
    log, floor = math.log(row["turns_ratio"]), math.log1p(row["identical_runs"])
    return judge_interval((log, log), margin=floor, floor=floor) in (AHEAD, BEHIND)


CONFIGURATION = ["suite", "backend", "device", "world_size"]
SUMMARY_HEAD = "# Summary by configuration\n\n"


def summary_by_config(table: pd.DataFrame, points: pd.DataFrame) -> str:
    """Summarize each configuration: the number of points, their outcomes, and their extremes.

    Different points are never averaged: mean and standard deviation are of the samples of a point.

    Args:
        points: measured rows, one per point, over all runs.
    """
    rows = []
    groups, is_of_runs = table.groupby(CONFIGURATION, dropna=False), is_repeated(table)
    number = groups.ngroup()
    of_points = number[points.index]
    for values, group in groups:
        measured = points[of_points == number[group.index[0]]]
        ok = (group["status"] == "ok").sum()
        row = dict(zip(CONFIGURATION, values, strict=True)) | {"points": len(group), "ok": ok}
        if is_of_runs:
            row["runs"] = group["run"].nunique()
        if not measured.empty:
            times = measured["median_s"]
            for name, point in (("fastest", times.idxmin()), ("slowest", times.idxmax())):
                row[f"{name} [ms]"] = times[point] * 1e3
                row[f"{name}: mean ± std [ms]"] = mean_and_deviation(measured.loc[point])
            row["widest rel_ci [%]"] = pd.to_numeric(measured["rel_ci"]).max() * 100
            for metric in METRICS:
                rates = measured[metric.name]
                if metric.unit == "GB/s" and rates.notna().any():
                    bare = metric.name.removesuffix("_gb_per_s")
                    row[f"highest {bare} [GB/s]"] = rates.max()
        rows.append(row)
    return SUMMARY_HEAD + as_markdown(rows)


def mean_and_deviation(point: pd.Series) -> str:
    """Format the mean ± standard deviation of a point's samples in ms; one sample has none."""
    texts = (format_number(point[name] * 1e3) for name in ("mean_s", "std_s"))
    return " ± ".join(filter(None, texts))
