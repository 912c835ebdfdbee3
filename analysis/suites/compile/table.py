"""Writes when compiling pays: first step, compile time, steady state, break-even call."""

from typing import Any

import pandas as pd

from analysis.suites.compile.break_even import BreakEven
from analysis.suites.compile.curves import Curve, Group, comparisons, groups
from analysis.table import as_markdown, identity_columns
from analysis.text import as_csv, shortened
from benchkit.suites.compile.names import (
    CACHE_HITS,
    CACHE_MISSES,
    COMPILE_S,
    COMPILED_AT,
    GRAPH_BREAKS,
    GRAPHS,
    RECOMPILATIONS,
    RECOMPILE_S,
)

HEADS = {
    "name": "compiler",
    "first_step_s": "first step [s]",
    COMPILE_S: "compile time [s]",
    "steady_ms": "steady [ms]",
    "steady_at_rows": "steady at [rows]",
    "steady_speedup": "steady speedup",
    "break_even": "break-even [calls]",
    "of_each_run": "of each run",
    GRAPHS: "graphs",
    GRAPH_BREAKS: "graph breaks",
    RECOMPILATIONS: "recompilations",
    RECOMPILE_S: "recompiling [s]",
    "runs": "runs",
    "reason": "reason",
}
"""Columns of compile.md. Those without any value are left out."""
FIGURES = (
    "runs", "first_step_s", COMPILE_S, "steady_s", "steady_at_rows", "steady_speedup",
    "break_even_call", "break_even_outcome", "calls", GRAPHS, GRAPH_BREAKS, RECOMPILATIONS,
    RECOMPILE_S, COMPILED_AT, CACHE_HITS, CACHE_MISSES, "status", "reason",
)  # fmt: skip


def write(table: pd.DataFrame) -> dict[str, str]:
    """Write a table for readers, and the same as plain numbers: seconds, numbers of calls."""
    found = groups(table)
    if not found:
        return {}
    many = len(found) > 1
    parts = [section(group) if many else markdown(group) for group in found]
    rows = pd.DataFrame([row for group in found for row in rows_of(group)])
    settings = [
        name for name in identity_columns(table) if rows.get(name, rows.suite).notna().any()
    ]
    columns = [name for name in (*settings, *FIGURES) if name in rows]
    return {"compile.md": "\n\n".join(parts), "compile.csv": as_csv(rows[columns])}


def section(group: Group) -> str:
    return f"## {group.suffix.strip('_') or group.title}\n\n{markdown(group)}"


def markdown(group: Group) -> str:
    """Render one group."""
    rows = pd.DataFrame(rows_of(group))
    if (rows["runs"].dropna() == 1).all():
        rows = rows.drop(columns="runs")
    known = [name for name in HEADS if name in rows and rows[name].notna().any()]
    return as_markdown(rows[known].rename(columns=HEADS), shaped=True, source="compile.csv")


def rows_of(group: Group) -> list[dict[str, Any]]:
    """Return a row per compiler, those that could not run last."""
    measured = [row_of(*pair, group.baseline) for pair in comparisons(group)]
    failed = [{**row, "name": row["variant"], "reason": ending(row)} for row in group.failed]
    return [*measured, *failed]


def ending(row: dict[str, Any]) -> str:
    """Format why there are no figures: "unavailable: …", or "running" where no reason is known."""
    status, reason = str(row["status"]), row["reason"]
    return status if pd.isna(reason) else f"{status}: {shortened(reason)}"


def row_of(curve: Curve, found: BreakEven | None, baseline: Curve | None) -> dict[str, Any]:
    """Return the settings and the figures of one curve."""
    own: dict[str, Any] = {
        "name": curve.name,
        "runs": len(curve.runs),
        "first_step_s": float(curve.times[0]),
        "steady_s": curve.steady_s,
        "steady_ms": 1e3 * curve.steady_s,
        "steady_at_rows": curve.short_of or None,
        "calls": len(curve.times),
        "reason": None,
    }
    if found and baseline:
        own["steady_speedup"] = baseline.steady_s / curve.steady_s
        own["break_even"] = str(found)
        if len(curve.runs) > 1:
            each = [single.short() for single in curve.runs_against(baseline)]
            own["of_each_run"] = ", ".join(each)
        own["break_even_call"] = found.call
        own["break_even_outcome"] = found.outcome
    return {**curve.row, **own}
