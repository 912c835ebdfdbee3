"""Tabulates results of other systems beside our own, suite by suite."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import groupby
from pathlib import Path

import pandas as pd

from analysis.output import write as write_file
from analysis.records.figures import plain_cells
from analysis.records.foreign import Timing
from analysis.text import render_table

HOW = ["source", "estimator", "conversion"]
HEADS = {
    "collective": "collective",
    "payload_bytes": "payload [B]",
    "primitive": "primitive",
    "model": "model",
    "context_length": "context",
    "batch_size": "batch",
    "step": "pass",
    "size": "size",
    "bg_streams": "background streams",
    "phase": "phase",
    "seq_len": "tokens",
    "slowdown": "slowdown",
    "strategy": "strategy",
    "m": "m",
    "n": "n",
    "k": "k",
    "implementation": "implementation",
    "world_size": "ranks",
    "source": "source",
    "file": "file",
    "backend": "backend",
    "device": "device",
    "dtype": "dtype",
    "reduce_op": "reduce_op",
    "in_place": "in place",
    "status": "status",
    "time_s": "time [ms]",
    "std_s": "std [ms]",
    "osu_mean_s": "OSU mean [ms]",
    "algbw_gb_per_s": "algbw [GB/s]",
    "busbw_gb_per_s": "busbw [GB/s]",
}
"""The columns on screen, in their order, and their heads."""


def combined(rows: Sequence[Timing]) -> list[pd.DataFrame]:
    """Make a table per suite, with comparable rows next to each other."""
    tables = []
    in_order = sorted(rows, key=lambda row: row.SUITE)
    for suite, of_suite in groupby(in_order, key=lambda row: row.SUITE):
        mine = list(of_suite)
        columns = [column.name for column in fields(mine[0])]
        table = pd.DataFrame([plain_cells(asdict(row)) for row in mine], columns=columns)
        whole = {name: "Int64" for name in ("world_size", "payload_bytes") if name in table}
        table = table.astype(whole).sort_values([*mine[0].ORDER], ignore_index=True)
        table.insert(0, "suite", suite)
        tables.append(table)
    return tables


def write(tables: Sequence[pd.DataFrame], folder: Path) -> list[Path]:
    return [
        write_file(folder, "imported.csv", pd.concat(tables)),
        write_file(folder, "imported.md", as_text(tables, "github")),
    ]


def as_text(tables: Sequence[pd.DataFrame], style: str) -> str:
    return "\n\n".join(text_of(table, style) for table in tables)


def text_of(table: pd.DataFrame, style: str) -> str:
    """Render a table, with numbered notes on how rows were measured and converted."""
    number = table.groupby(HOW, sort=False).ngroup() + 1
    shown = pd.DataFrame(index=table.index)
    for name in (name for name in HEADS if name in table):
        column = table[name]
        if name == "file":
            column = column.map(lambda file: Path(file).name)
        elif name == "in_place":
            column = column.map({True: "yes", False: "no"})
        elif name.endswith("_s"):
            column = pd.to_numeric(column) * (1 if name.endswith("_per_s") else 1e3)
        shown[HEADS[name]] = column
    shown = shown.dropna(axis=1, how="all").assign(how=number)
    lines = [render_table(shown, style), "", "How (1 GB = 10^9 bytes, S: payload):", ""]
    for way in table.assign(number=number).drop_duplicates("number").itertuples():
        lines.append(f"{way.number}. {way.source}: {way.estimator}; {way.conversion}")
    return "\n".join(lines)
