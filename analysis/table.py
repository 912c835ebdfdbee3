"""The combined table: one row per case of every record, failed ones included, with a fixed order of columns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.records.metrics import METRICS
from analysis.records.rows import DETAILS, DIMENSIONS, MODEL
from analysis.text import named, render_table, shortened

SETTINGS = ("suite", "status", "backend", "device", "world_size", "model")
HARDWARE_AND_SOFTWARE = ("device_name", "torch", "cuda", "nccl", "commit", "kernel")
CONDITIONS = (
    "host", *HARDWARE_AND_SOFTWARE, "launched_by", "num_agents", "start_method", "threads", "ranks_per_device",
    "backend_env", "slowdown", "seed", "mode", "calls_per_sample", "warmup_iterations",
)  # fmt: skip
"""Part of what a row is, since medians differ by it, but shown only where rows differ in it."""
PROVENANCE = (
    "run", "load", "warning", "doubt", "bound", "unslowed", "contest", *DIMENSIONS, "measured_slowdown",
    "slowed_by", "calls", "estimator", "stopped_by", "converged", "steady", "disturbed", "clock", "start_clock",
    "start_uncertainty_s", "threads_per_rank", "cores_per_rank", "reason", "failed_rank", "point_id",
    "started_at", "total_s", "path",
)  # fmt: skip

NUMBERS = ("threads_per_rank", "cores_per_rank", "start_uncertainty_s", "failed_rank")
"""Those of them that are compared or printed as numbers."""


def combine(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """All rows. Columns: settings, suites' own keys and labels, conditions, metrics, what suites told, provenance."""
    told = [row.get(DETAILS, {}) for row in rows]
    metrics = [metric.name for metric in METRICS]
    taken = {*SETTINGS, *CONDITIONS, *metrics, *PROVENANCE, DETAILS}
    details = dict.fromkeys(name for each in told for name in each if name not in taken)
    own = dict.fromkeys(name for row in rows for name in row if not (name in taken or name in details))
    columns = [*SETTINGS, *own, *CONDITIONS, *metrics, *details, *PROVENANCE]
    table = pd.DataFrame([{**each, **row} for each, row in zip(told, rows, strict=True)], columns=columns)
    numbers = [*metrics, *NUMBERS]  # where no row has a figure there would be objects
    table[numbers] = table[numbers].apply(pd.to_numeric)
    return table.assign(model=full_names(table))


def full_names(table: pd.DataFrame) -> pd.Series:
    """The models' names; where one name stands for unlike models, with what is unlike: "small vocab_size=32000"."""
    names = table["model"].copy()
    for _, rows in table.groupby("model"):
        for dimension in DIMENSIONS:
            if rows[dimension].nunique() > 1:
                what = dimension.removeprefix(MODEL)
                names.loc[rows.index] += rows[dimension].map(lambda value, what=what: f" {what}={value:g}")
    return names


def own_columns(table: pd.DataFrame) -> list[str]:
    """The columns that are the suites' own keys and labels."""
    columns = list(table.columns)
    return columns[len(SETTINGS) : columns.index(CONDITIONS[0])]


def identity_columns(table: pd.DataFrame) -> list[str]:
    """The columns that say what was measured, apart from how it went."""
    return [name for name in [*SETTINGS, *own_columns(table), *CONDITIONS] if name != "status"]


def is_repeated(table: pd.DataFrame) -> bool:
    """Whether several runs measured the same, so that rows are told apart by their run alone."""
    return table["run"].nunique() > 1 and bool(table.duplicated(identity_columns(table)).any())


def subjects(table: pd.DataFrame) -> pd.Series:
    """What each row is about: of the suite of collectives the collective, else the suite."""
    if "collective" not in table:
        return table["suite"]
    return table["collective"].where(table["suite"] == "collective", table["suite"])


def alike(rows: pd.DataFrame, *without: str) -> list[tuple[str, pd.DataFrame]]:
    """Rows that may stand in one plot or table: equal in all that says what was measured but the columns named.

    Each group with a suffix for its file's name, "" where there is but one.
    """
    apart = [name for name in identity_columns(rows) if name not in without and rows[name].nunique(dropna=False) > 1]
    if not apart:
        return [("", rows)]
    found = []
    for values, group in rows.groupby(apart, dropna=False):
        words = [re.sub("[^0-9A-Za-z.]+", "-", str(value)) for value in values]
        pairs = "_".join(f"{name}-{word}" for name, word in zip(apart, words, strict=True))
        found.append((f"_{pairs}", group))
    return found


def by_mechanism(rows: pd.DataFrame, *without: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """As `alike`, and a group for each mechanism where several slowed ranks down.

    Rows that nobody slows have no mechanism and belong to each group: they are what the others are compared with. So
    the mechanism cannot be one of the columns by which all that is alike is found.
    """
    for suffix, group in alike(rows, *without):
        mechanisms = list(group["slowed_by"].dropna().unique())
        if len(mechanisms) < 2:
            yield suffix, group
            continue
        for name in mechanisms:
            yield f"{suffix}_slowed_by-{name}", group[group["slowed_by"].isna() | (group["slowed_by"] == name)]


INTERVAL = "95 % interval [ms]"
"""Of the median, within the run: "[0.9, 1.4]"."""
PRINTED = (
    "median_s", INTERVAL, "mean_s", "p25_s", "p95_s", "start_skew_s", "paired_speedup", "overlap",
    "limit_share", "behind_best", "scaling_efficiency", "comm_share", "predicted_s",
    "efficiency", "tokens_per_second", "mfu_full", "useful_tflop_per_s", "algbw_gb_per_s", "busbw_gb_per_s",
)  # fmt: skip


def for_print(table: pd.DataFrame) -> pd.DataFrame:
    """The columns a person wants to see, scaled to the unit in their heads, less those that say nothing."""
    shown = pd.DataFrame()
    differing = [name for name in CONDITIONS if table[name].nunique(dropna=False) > 1]
    for name in [*SETTINGS, *own_columns(table), *differing, *PRINTED, "num_samples"]:
        metric = next((metric for metric in METRICS if metric.name == name), None)
        column = intervals(table) if name == INTERVAL else table[name]
        if column.isna().all():
            continue
        if name == "data_size":
            shown[name] = column.map(lambda size: named("data_size", size), na_action="ignore")
        elif metric is None:
            shown[name] = column
        else:
            bare = name.removesuffix("_gb_per_s").removesuffix("_tflop_per_s").removesuffix("_s")
            head = bare + (f" [{metric.unit}]" if metric.unit else "")
            shown[head] = pd.to_numeric(column) * metric.scale
    if is_repeated(table):
        shown["run"] = table["run"]
    for name in ("warning", "doubt"):
        if table[name].notna().any():
            shown[name] = table[name].map(shortened, na_action="ignore")
    failed = table["status"] != "ok"
    if failed.any():
        shown["reason"] = table["reason"].where(failed).map(shortened, na_action="ignore")
    return shown


def intervals(table: pd.DataFrame) -> pd.Series:
    """The interval of each median in ms as text; of few runs their range; "too few" where there are too few samples."""

    def text(row: Any) -> str | None:
        if pd.isna(row["median_s"]):
            return None
        if pd.notna(row["ci_low_s"]):
            return f"[{1e3 * row['ci_low_s']:.4g}, {1e3 * row['ci_high_s']:.4g}]"
        if row.get("num_runs", 1) > 1:
            return f"{row['num_runs']:g} runs: {1e3 * row['range_low_s']:.4g} to {1e3 * row['range_high_s']:.4g}"
        return "too few"

    return table.apply(text, axis=1)


def as_text(table: pd.DataFrame) -> str:
    """The combined table for a terminal: what all rows share stands once, above it."""
    shown = for_print(table)
    settings = [name for name in identity_columns(table) if name in shown]
    shared = [name for name in settings if len(table) > 1 and shown[name].nunique(dropna=False) == 1]
    head = ", ".join(f"{name} {shown[name].iloc[0]}" for name in shared)
    return (f"All rows: {head}\n\n" if head else "") + render_table(shown.drop(columns=shared), "simple")


def as_markdown(table: pd.DataFrame, shaped: bool = False) -> str:
    """The combined table in Markdown; `shaped` where the columns are meant for a reader already."""
    return render_table(table if shaped else for_print(table), "github")
