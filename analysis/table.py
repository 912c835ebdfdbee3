"""The combined table: one row per case of every record, failed ones included, with a fixed order of columns."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from tabulate import tabulate

from benchkit.statistics import summarize

Summary = Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """A column derived from a case and its summary; None where it does not apply. `scale` is for printing only."""

    name: str
    unit: str
    formula: Callable[[Mapping[str, Any], Summary], float | int | None]
    scale: float = 1.0


def rate(case: Mapping[str, Any], summary: Summary) -> float | None:
    """Algorithm bandwidth: payload over the median time, never a mean of rates; None on one rank."""
    if not case.get("payload_bytes") or case.get("bus_factor") is None or not summary["median_s"]:
        return None
    return float(case["payload_bytes"] / summary["median_s"] / 1e9)


def bus_rate(case: Mapping[str, Any], summary: Summary) -> float | None:
    """Bus bandwidth of nccl-tests: algbw times the collective's factor; None on one rank."""
    algbw = rate(case, summary)
    return None if algbw is None else algbw * float(case["bus_factor"])


def from_summary(name: str) -> Callable[[Mapping[str, Any], Summary], Any]:
    return lambda case, summary: summary[name]


METRICS = (
    *(Metric(name, "ms", from_summary(name), 1e3) for name in (
        "median_s", "ci_low_s", "ci_high_s", "min_s", "mean_s", "std_s", "p95_s", "p99_s", "start_skew_s", "makespan_s"
    )),
    Metric("rel_ci", "%", from_summary("rel_ci"), 100),
    Metric("algbw_gb_per_s", "GB/s", rate),
    Metric("busbw_gb_per_s", "GB/s", bus_rate),
    Metric("straggler_rank", "", from_summary("straggler_rank")),
    Metric("straggler_share", "%", from_summary("straggler_share"), 100),
    Metric("num_samples", "", from_summary("num_samples")),
)  # fmt: skip

SETTINGS = ("suite", "status", "backend", "device", "world_size", "model")
CONDITIONS = ("start_method", "measure_mode")
"""Part of what a row is, since medians differ by it, but shown only where rows differ in it."""
PROVENANCE = (
    "stopped_by", "converged", "calls_per_sample", "clock", "threads_per_rank", "available_cores", "seed", "host",
    "reason", "failed_rank", "point_id", "started_at", "total_s", "path",
)  # fmt: skip
SHARED_KEYS = frozenset(
    ("suite", "seed", "world_size", "threads_per_rank", "start_method", "timeout_s", "backend", "hardware", "measure",
     "model")
)  # fmt: skip


def tabulate_records(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """One row per case. Columns: settings, the suites' own keys and labels, metrics, provenance. Times in seconds."""
    rows = [row for record in records for row in rows_of(record)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    metrics = [metric.name for metric in METRICS]
    own = [name for name in names if name not in (*SETTINGS, *CONDITIONS, *metrics, *PROVENANCE)]
    return pd.DataFrame(rows, columns=[*SETTINGS, *own, *CONDITIONS, *metrics, *PROVENANCE])


def own_columns(table: pd.DataFrame) -> list[str]:
    """The columns that are the suites' own keys and labels."""
    columns = list(table.columns)
    return columns[len(SETTINGS) : columns.index(CONDITIONS[0])]


def identity_columns(table: pd.DataFrame) -> list[str]:
    """The columns that say what was measured, apart from how it went."""
    return [name for name in [*SETTINGS, *own_columns(table), *CONDITIONS] if name != "status"]


def rows_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of one record; one without cases still gives one row."""
    config, error = record["config"], record["error"] or {}
    shared = {
        "suite": record["suite"],
        "backend": config["backend"]["name"],
        "device": config["hardware"]["device"],
        "world_size": record["world_size"],
        "model": (config["model"] or {}).get("name"),
        **{name: value for name, value in config.items() if name not in SHARED_KEYS},
    }
    provenance = {
        "measure_mode": config["measure"]["mode"],
        "clock": record["clock"],
        "start_method": config["start_method"],
        "threads_per_rank": record["threads_per_rank"],
        "available_cores": record["environment"]["available_cores"],
        "seed": config["seed"],
        "host": record["environment"]["host"],
        "point_id": record["point_id"],
        "started_at": record["started_at"],
        "total_s": record["phases_s"].get("total"),
        "path": record.get("path"),
    }
    failed = {"status": record["status"], "reason": error.get("message"), "failed_rank": error.get("rank")}
    if not record["cases"]:
        return [shared | provenance | failed]
    return [shared | case_row(case) | provenance for case in record["cases"]]


def case_row(case: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a row that is the case's own."""
    row = {
        **case["labels"],
        "status": case["status"],
        "reason": case["reason"] or None,
        "failed_rank": case["rank"],
    }
    if not case.get("samples_s"):
        return row
    row |= {name: case[name] for name in ("stopped_by", "converged", "calls_per_sample")}
    if case["status"] != "ok":
        return row
    summary = summarize(case["samples_s"], case["start_offsets_s"], case["block_iterations"])
    return row | {metric.name: metric.formula(case, summary) for metric in METRICS}


PRINTED = ("median_s", "rel_ci", "min_s", "p95_s", "start_skew_s", "algbw_gb_per_s", "busbw_gb_per_s")


def for_print(table: pd.DataFrame) -> pd.DataFrame:
    """The columns a person wants to see, scaled to the unit in their heads; columns that say nothing are left out."""
    shown = pd.DataFrame()
    differing = [name for name in CONDITIONS if table[name].nunique() > 1]
    for name in [*SETTINGS, *own_columns(table), *differing, *PRINTED, "num_samples"]:
        metric = next((metric for metric in METRICS if metric.name == name), None)
        column = table[name]
        if column.isna().all():
            continue
        if metric is None:
            shown[name] = column
        else:
            head = name.removesuffix("_gb_per_s").removesuffix("_s") + (f" [{metric.unit}]" if metric.unit else "")
            shown[head] = pd.to_numeric(column) * metric.scale
    failed = table["status"] != "ok"
    if failed.any():
        shown["reason"] = table["reason"].where(failed).map(shortened, na_action="ignore")
    return shown


def shortened(reason: str) -> str:
    """The first line of a reason, cut to what a table bears."""
    line = reason.split("\n")[0]
    return line if len(line) <= 80 else line[:77] + "..."


def as_text(table: pd.DataFrame) -> str:
    """The combined table for a terminal: what all rows share stands once, above it."""
    shown = for_print(table)
    settings = [name for name in identity_columns(table) if name in shown]
    shared = [name for name in settings if len(table) > 1 and shown[name].nunique(dropna=False) == 1]
    head = ", ".join(f"{name} {shown[name].iloc[0]}" for name in shared)
    return (f"All rows: {head}\n\n" if head else "") + laid_out(shown.drop(columns=shared), "simple")


def as_markdown(table: pd.DataFrame, shaped: bool = False) -> str:
    """The combined table in Markdown; `shaped` where the columns are meant for a reader already."""
    return laid_out(table if shaped else for_print(table), "github")


def laid_out(shown: pd.DataFrame, style: str) -> str:
    """Empty where there is nothing, four digits where there is a number."""
    text = shown.astype(object).where(shown.notna(), "")
    return tabulate(text.to_dict("list"), headers="keys", tablefmt=style, floatfmt=".4g")
