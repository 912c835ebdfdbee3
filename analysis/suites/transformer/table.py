"""Writes the report of language models: results, comparisons, extremes, contexts by models."""

from collections.abc import Iterator

import pandas as pd

from analysis.run_spread import describe_runs
from analysis.suites.transformer.rows import rows_of, varying
from analysis.suites.transformer.sections import (
    Tables,
    by_model,
    by_setting,
    passes,
    pivots,
    results,
    statistics,
    warmups,
)
from analysis.table import as_markdown, own_columns
from analysis.text import format_settings
from benchkit.api.details import PEAK_FROM
from benchkit.suites.transformer.names import PART

CONVENTIONS = (
    "Times are of the slowest rank, per step; the interval is that of the median, within the run "
    "or, of 6 runs and more, between them. "
    "MFU is told against: {peaks}; full counts every pair of tokens in attention, as PaLM does, "
    "causal only the pairs that are seen."
)


def write(table: pd.DataFrame) -> dict[str, str]:
    rows = rows_of(table)
    if rows.empty:
        return {}
    return {"benchmark_summary.md": "\n\n".join(filter(None, parts_of(rows)))}


def parts_of(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the paragraphs of the report, then the sections that have tables."""
    measured = rows[rows["status"] == "ok"]
    peaks = " or ".join(dict.fromkeys(measured[PEAK_FROM].dropna()))
    yield "# Step time of language models"
    yield CONVENTIONS.format(peaks=peaks or "no known peak")
    yield f"All rows: {format_settings(rows, shared_settings(rows))}."
    yield " ".join(describe_runs(measured))
    sections: dict[str, Tables] = {
        "Complete Results": iter([("", results(rows, varying(rows)))]),
        "Results by Model Size": by_model(rows),
        "Forward-Only vs Forward+Backward": by_setting(measured, passes),
        "Effect of Number of Warmup Runs": iter([("", warmups(measured))]),
        "Summary Statistics": by_setting(rows, statistics),
        "Median step time by context and model": pivots(rows),
    }
    for title, tables in sections.items():
        shown = [text(head, table) for head, table in tables if not table.empty]
        if shown:
            yield "\n\n".join((f"## {title}", *shown))


def shared_settings(rows: pd.DataFrame) -> list[str]:
    """List the settings that are known and the same in all rows."""
    names = [name for name in ("device", "device_name", *own_columns(rows)) if name != PART]
    return [name for name in names if rows[name].nunique() == 1 and rows[name].notna().all()]


def text(head: str, table: pd.DataFrame) -> str:
    """Format a table below its heading, where it has one."""
    body = as_markdown(table, shaped=True)
    return f"### {head}\n\n{body}" if head else body
