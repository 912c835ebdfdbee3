"""Writes all files of a report: tables, plots and sentences."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import ranks, sentences, style, tables
from analysis.metrics import METRICS
from analysis.plots import draw_all
from analysis.repetitions import over_runs
from analysis.speedup import Baseline, compared
from analysis.table import as_markdown, identity_columns, is_repeated

CONFIGURATION = ["suite", "backend", "device", "world_size"]


def write_report(
    table: pd.DataFrame, folder: Path, baseline: Baseline | None = None, per_rank: Sequence[Mapping[str, Any]] = ()
) -> Iterator[Path]:
    """Yields each file as it is written; raises BaselineError for an unusable baseline.

    per_rank: one row per rank and case, of those that tell of their ranks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "combined.csv", index=False)
    yield folder / "combined.csv"
    yield write(folder / "full_results.md", "# Full results\n\n" + UNITS + as_markdown(table))
    yield write(folder / "summary_by_config.md", "# Summary by configuration\n\n" + summary_by_config(table))
    yield write(folder / "analysis.txt", sentences.describe(table))
    for name, text in tables.write_all(table):
        yield write(folder / name, text)
    if per_rank:
        pd.DataFrame(per_rank).to_csv(folder / "per_rank.csv", index=False)
        yield folder / "per_rank.csv"
        shown = as_markdown(ranks.for_print(per_rank), shaped=True)
        yield write(folder / "per_rank.md", "# Per rank\n\n" + RANK_UNITS + shown)
    if not (table["status"] == "ok").any():
        return
    if found := [rows.assign(baseline=str(chosen)) for _, chosen, rows in compared(table, baseline)]:
        speedups_of(pd.concat(found)).to_csv(folder / "speedups.csv", index=False)
        yield folder / "speedups.csv"
    style.apply()
    for name, figure in draw_all(table, baseline):
        yield style.save(figure, folder / name)


UNITS = (
    "Times are of the slowest rank, per call, latencies from the last rank's start to the last rank's end; the 95 % "
    "interval of the median is within the run; too few: too few independent samples for one. "
    "GB/s are 10^9 bytes per second; `data_size` is in MiB (2^20 bytes).\n\n"
)


RANK_UNITS = "Medians over the samples; busy is what is left of a call when its waiting is taken away.\n\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip() + "\n")
    return path


def speedups_of(rows: pd.DataFrame) -> pd.DataFrame:
    """What was compared, with what, and how far the ratio can be trusted (analysis.speedup.speedups)."""
    limits = ["speedup_low", "speedup_high", "speedup_range_low", "speedup_range_high"]
    told = ["baseline", "median_s", "median_s_baseline", "speedup", *limits, "speedup_basis", "run"]
    return rows[[*identity_columns(rows), *told]]


def summary_by_config(table: pd.DataFrame) -> str:
    """Per configuration how many points there are, how they went, and the extremes; nothing unlike is averaged."""
    rows = []
    for values, group in table.groupby(CONFIGURATION, dropna=False):
        ok = group[group["status"] == "ok"]
        measured = over_runs(ok, *identity_columns(group))
        row = dict(zip(CONFIGURATION, values, strict=True)) | {"points": len(group), "ok": len(ok)}
        if is_repeated(table):
            row["runs"] = group["run"].nunique()
        if not measured.empty:
            row["fastest [ms]"] = measured["median_s"].min() * 1e3
            row["slowest [ms]"] = measured["median_s"].max() * 1e3
            row["widest rel_ci [%]"] = pd.to_numeric(measured["rel_ci"]).max() * 100
            for metric in METRICS:
                if metric.unit == "GB/s" and measured[metric.name].notna().any():
                    row[f"highest {metric.name.removesuffix('_gb_per_s')} [GB/s]"] = measured[metric.name].max()
        rows.append(row)
    return as_markdown(pd.DataFrame(rows), shaped=True)
