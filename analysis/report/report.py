"""Write all files of a report: tables, plots and sentences."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.discover import or_left_out, write_all
from analysis.output import Content, file_name, write
from analysis.records.columns import METRICS
from analysis.records.environments import TOLERANCE
from analysis.records.places import PLACE, STATE
from analysis.repetitions import FEWEST_RUNS, over_repetitions, over_runs
from analysis.report import sentences, sizes, style
from analysis.report.draw import draw_all
from analysis.report.naming import Namer
from analysis.report.speedups import as_table
from analysis.screen import screen_of
from analysis.table import ROUNDS, for_print, identity_columns, is_repeated
from analysis.text import as_markdown, complain, figure
from analysis.variants import Baseline
from benchkit.statistics.compare import plus_minus
from benchkit.statistics.judgement import AHEAD, BEHIND, judge, judge_speedup


def ranks_for_print(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of ranks with times in ms, without the columns that are the same throughout.

    Where ranks ran is in `rank_devices_table`.
    """
    table = rows.drop(columns=[*PLACE, *STATE], errors="ignore")
    differing = [name for name in table if table[name].nunique(dropna=False) > 1 or name == "rank"]
    shown = table[differing]
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
    tables = []
    for run, own in per_rank.groupby("run", dropna=False, sort=False):
        differing = of_run(own)
        if len(differing.columns) > 1:
            tables.append(f"## {run}\n\n" + as_markdown(differing))
    return RANK_DEVICES_HEAD + "\n\n".join(tables) if tables else None


def of_run(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per rank, or more if its place changed, with the columns that differ."""
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
    "# Taking turns\n\n"
    "The baseline and the best case of each job were timed again, each alone in fresh ranks. In "
    "turns / alone is the ratio of the medians, above 1 where turns cost time. Its interval is "
    f"between runs; below {FEWEST_RUNS} runs there is none, and the noise floor of the machine "
    "says what two identical runs differ by. All tables and plots have the speedups in turns.\n\n"
)


def turns_table(table: pd.DataFrame) -> str | None:
    """Describe all cases that were timed alone, too; None where there is none."""
    measured = table[table["turns_ratio"].notna()]
    if measured.empty:
        return None
    points = over_runs(measured, *identity_columns(table))
    name = Namer(points)
    rows = [
        {
            "case": name(row),
            "in turns [ms]": row["median_s"] * 1e3,
            "alone [ms]": row["alone_s"] * 1e3,
            "in turns / alone": row["turns_ratio"],
            "95 % interval": interval(row),
            "runs": row["num_runs"],
            "turns": verdict(row),
            "speedup in turns": row["paired_speedup"],
            "speedup alone": row["alone_speedup"],
        }
        for _, row in points.iterrows()
    ]
    return TURNS_HEAD + as_markdown(rows)


def interval(row: Any) -> str:
    if pd.isna(row["turns_ratio_low"]):
        return "too few runs"
    return f"[{row['turns_ratio_low']:.3f}, {row['turns_ratio_high']:.3f}]"


def verdict(row: Any) -> str:
    """Say whether turns changed a row's time, by its interval or else by the noise floor."""
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
    """Return whether `turns_ratio` of a row of `over_runs` is more than chance.

    It is judged by its interval between runs or, where there are too few runs for one, by what two
    identical runs differ by. Without a noise floor nothing is more than chance.
    """
    if pd.notna(row["turns_ratio_low"]):
        return judge_speedup(row["turns_ratio_low"], row["turns_ratio_high"]) in (AHEAD, BEHIND)
    log, floor = math.log(row["turns_ratio"]), math.log1p(row["identical_runs"])
    return judge((log, log), margin=floor, floor=floor) in (AHEAD, BEHIND)


CONFIGURATION = ["suite", "backend", "device", "world_size"]
UNITS = (
    "Times are of the slowest rank, per call, latencies from the last rank's start to the last "
    "rank's end. In square brackets is the 95 % interval of the median within the run; in round "
    "ones the range of the calls, of few all and else their middle half, where they are too few "
    "for an interval. Of a point that ran several times in one sweep both are of the runs; "
    "`within a run` is half the width of the interval within a run, `between runs` half the range "
    "of the runs, both as a share of the median. "
    "GB/s are 10^9 bytes per second; `data_size` is in MiB (2^20 bytes).\n\n"
)
RANK_UNITS = (
    "Medians over the samples; busy is what is left of a call when its waiting is taken away.\n\n"
)


def write_report(
    table: pd.DataFrame,
    folder: Path,
    baseline: Baseline | None = None,
    per_rank: pd.DataFrame | None = None,
    formats: Sequence[str] = style.FORMATS[:1],
    compare_at: float | None = None,
) -> Iterator[Path]:
    """Yield each file as it is written; one that cannot be made is left out with a line on stderr.

    Args:
        baseline: what speedups compare with; by default each suite has its own.
        per_rank: one row per rank and case, of the cases that report their ranks.
        formats: of the figures, of `style.FORMATS`.
        compare_at: a size in MiB at which backends are compared, beside the largest that all have.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in texts_of(table, baseline, per_rank):
        content = or_left_out(name, make)
        if content is not None:
            yield write(folder, name, content)
    for name, text in write_all(table, or_left_out):
        yield write(folder, name, text)
    if not (table["status"] == "ok").any():
        return
    style.apply()
    more = {} if compare_at is None else sizes.comparisons_at(table, compare_at)
    if compare_at is not None and not more:
        complain("analysis", f"--compare-at {compare_at:g}: no such data_size was measured")
    for name, drawn in draw_all(table, baseline, or_left_out, more):
        save = partial(style.save, drawn, folder / file_name(name), formats)
        yield from or_left_out(f"plot {name}", save) or ()


def texts_of(
    table: pd.DataFrame, baseline: Baseline | None, per_rank: pd.DataFrame | None
) -> Iterator[tuple[str, Callable[[], Content | None]]]:
    """Yield each file that belongs to no single suite, and what makes its content or None."""

    def full_results() -> str:
        return "# Full results\n\n" + UNITS + as_markdown(for_print(over_repetitions(table)))

    def summary() -> str:
        return "# Summary by configuration\n\n" + summary_by_config(table)

    def rank_results() -> str:
        rank_table = as_markdown(ranks_for_print(per_rank), "per_rank.csv")
        return "# Per rank\n\n" + RANK_UNITS + rank_table

    yield "combined.csv", lambda: table.drop(columns=ROUNDS)
    yield "full_results.md", full_results
    yield "summary_by_config.md", summary
    yield (
        "analysis.txt",
        lambda: "\n\n".join(
            filter(None, (screen_of(table, baseline).text(), sentences.describe(table)))
        ),
    )
    yield sentences.FILE_NAME, partial(sentences.as_markdown, table[table["status"] == "ok"])
    if per_rank is not None and not per_rank.empty:
        yield "per_rank.csv", lambda: per_rank
        yield "per_rank.md", rank_results
        yield "rank_devices.md", partial(rank_devices_table, per_rank)
    yield "turns.md", partial(turns_table, table)
    yield "speedups.csv", partial(as_table, table, baseline)


def summary_by_config(table: pd.DataFrame) -> str:
    """Summarize each configuration: how many points it has, how they went, and their extremes.

    Unlike points are never averaged: mean and standard deviation are those of a point's samples.
    """
    rows = []
    for values, group in table.groupby(CONFIGURATION, dropna=False):
        ok = group[group["status"] == "ok"]
        measured = over_runs(ok, *identity_columns(group))
        row = dict(zip(CONFIGURATION, values, strict=True)) | {"points": len(group), "ok": len(ok)}
        if is_repeated(table):
            row["runs"] = group["run"].nunique()
        if not measured.empty:
            in_order = measured.sort_values("median_s")
            for name, point in (("fastest", in_order.iloc[0]), ("slowest", in_order.iloc[-1])):
                row[f"{name} [ms]"] = point["median_s"] * 1e3
                row[f"{name}: mean ± std [ms]"] = mean_and_deviation(point)
            row["widest rel_ci [%]"] = pd.to_numeric(measured["rel_ci"]).max() * 100
            for metric in METRICS:
                rates = measured[metric.name]
                if metric.unit == "GB/s" and rates.notna().any():
                    bare = metric.name.removesuffix("_gb_per_s")
                    row[f"highest {bare} [GB/s]"] = rates.max()
        rows.append(row)
    return as_markdown(rows)


def mean_and_deviation(point: pd.Series) -> str:
    """Format the mean of a point's samples and, of several, their deviation, in milliseconds."""
    texts = (figure(point[name] * 1e3) for name in ("mean_s", "std_s"))
    return " ± ".join(filter(None, texts))
