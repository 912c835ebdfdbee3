"""Writes all files of a report: tables, plots and sentences."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis.baseline import Baseline
from analysis.output import Content, file_name, write
from analysis.records.metrics import METRICS
from analysis.repetitions import FEWEST_RUNS, over_repetitions, over_runs
from analysis.report import noise, rank_devices, ranks, sentences, size_plots, style, turns
from analysis.report.attempts import or_left_out
from analysis.report.discover import draw_all, write_all
from analysis.speedup import compared
from analysis.table import as_markdown, identity_columns, is_repeated
from analysis.text import complain

CONFIGURATION = ["suite", "backend", "device", "world_size"]
UNITS = (
    "Times are of the slowest rank, per call, latencies from the last rank's start to the last "
    "rank's end; the 95 % interval of the median is within the run; too few: too few independent "
    "samples for one. Of a point that ran several times in one sweep it is between the runs, below "
    f"{FEWEST_RUNS} runs their range; `within a run` is half the width of the interval within a "
    "run, `between runs` half the range of the runs, both as a share of the median. "
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
        table: the combined table.
        folder: where to write.
        baseline: what speedups compare with; by default each suite has its own.
        per_rank: one row per rank and case, of the cases that report their ranks.
        formats: of the figures, of `style.FORMATS`.
        compare_at: a size in MiB at which backends are compared, beside the largest that all have.

    Raises:
        OSError: where the folder cannot be written to.
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
    drawn = draw_all(table, baseline, or_left_out)
    for name, figure in chain(drawn, compared_at(table, compare_at)):
        save = partial(style.save, figure, folder / file_name(name), formats)
        yield from or_left_out(f"plot {name}", save) or ()


def compared_at(table: pd.DataFrame, size: float | None) -> Iterator[tuple[str, Figure]]:
    """Yield the names and figures of comparisons at a size in MiB; says so where there is none."""
    if size is None:
        return
    drawings = size_plots.comparisons_at(table, size)
    if not drawings:
        complain("analysis", f"--compare-at {size:g}: no such data_size was measured")
    for name, draw in drawings.items():
        figure = or_left_out(f"plot {name}", draw)
        if figure is not None:
            yield name, figure


def texts_of(
    table: pd.DataFrame, baseline: Baseline | None, per_rank: pd.DataFrame | None
) -> Iterator[tuple[str, Callable[[], Content | None]]]:
    """Yield the files that belong to no single suite.

    Yields:
        The name of a file, and a function that makes its content. Where that returns None, there is
        no such file.
    """

    def full_results() -> str:
        return "# Full results\n\n" + UNITS + as_markdown(over_repetitions(table))

    def summary() -> str:
        return "# Summary by configuration\n\n" + summary_by_config(table)

    def rank_results() -> str:
        rank_table = as_markdown(ranks.for_print(per_rank), shaped=True, source="per_rank.csv")
        return "# Per rank\n\n" + RANK_UNITS + rank_table

    yield "combined.csv", lambda: table
    yield "full_results.md", full_results
    yield "summary_by_config.md", summary
    yield "analysis.txt", partial(sentences.describe, table, baseline)
    yield noise.FILE_NAME, partial(noise.as_markdown, table[table["status"] == "ok"])
    if per_rank is not None and not per_rank.empty:
        yield "per_rank.csv", lambda: per_rank
        yield "per_rank.md", rank_results
        yield "rank_devices.md", partial(rank_devices.describe, per_rank)
    yield "turns.md", partial(turns.describe, table)
    yield "speedups.csv", partial(all_speedups, table, baseline)


def all_speedups(table: pd.DataFrame, baseline: Baseline | None) -> pd.DataFrame | None:
    """Return the speedups of all suites; None where nothing is compared."""
    found = [rows.assign(baseline=str(chosen)) for _, chosen, rows in compared(table, baseline)]
    return speedups_of(pd.concat(found)) if found else None


def speedups_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Select what was compared, with what, and how far the ratio can be trusted.

    See analysis.speedup for the columns.
    """
    limits = ["speedup_low", "speedup_high", "speedup_range_low", "speedup_range_high"]
    times = ["median_s", "median_s_baseline"]
    columns = ["baseline", *times, "speedup", *limits, "speedup_basis", "run"]
    return rows[[*identity_columns(rows), *columns]]


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
    return as_markdown(pd.DataFrame(rows), shaped=True)


def mean_and_deviation(point: pd.Series) -> str:
    """Format the mean of a point's samples and their standard deviation, in milliseconds."""
    mean_ms, std_ms = (f"{point[name] * 1e3:.4g}" for name in ("mean_s", "std_s"))
    return f"{mean_ms} ± {std_ms}"
