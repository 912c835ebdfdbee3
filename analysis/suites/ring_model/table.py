"""Prefill and decode of a decoder on a split sequence: time, speedups, tokens per rank."""

import pandas as pd

from analysis.report.chart import BARS, NAMES, TIMES, Axis, Chart, Charts, chart_points
from analysis.report.markdown import document, format_run_spread
from analysis.shared.text_table import as_markdown
from analysis.suites.ring_attention.table import CELL, cells_of
from analysis.table.repetitions import add_group_to_title, describe_error_bars, fill_with_ranges
from analysis.table.variants import Baseline
from benchkit.suites.ring_attention.suite import EVEN, STRATEGY, TOKENS
from benchkit.suites.ring_model import suite as names

SUITE = "ring_model"
CASE = [names.PHASE, names.IMPLEMENTATION, STRATEGY]
LABELS = {names.PREFILL: "time to first token [ms]", names.DECODE: "time per token [ms]"}


def groups_of(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the groups of `cells_of` with the column `over_single`, the speedup over one rank."""
    return [
        (suffix, rows.assign(over_single=speedups_over_single(rows)))
        for suffix, rows in cells_of(table, SUITE, CASE)
    ]


def speedups_over_single(rows: pd.DataFrame) -> list[float]:
    """Return the median time of a single rank over that of each row; NaN where it is unknown."""
    single_rows = rows[rows[names.IMPLEMENTATION] == names.SINGLE]
    keys = [names.PHASE, *CELL]
    single_s = dict(
        zip(single_rows[keys].itertuples(index=False), single_rows["median_s"], strict=True)
    )
    return [
        single_s.get(key, float("nan")) / time
        for key, time in zip(rows[keys].itertuples(index=False), rows["median_s"], strict=True)
    ]


def write(table: pd.DataFrame) -> dict[str, str]:
    return {
        f"{SUITE}{suffix}.md": add_group_to_title(text_of(rows), suffix)
        for suffix, rows in groups_of(table)
    }


def text_of(rows: pd.DataFrame) -> str:
    parts = ["# A decoder on split sequences", format_run_spread(rows)]
    for phase, of_phase in rows.groupby(names.PHASE, sort=False):
        parts += [f"## {str(phase).capitalize()}", as_markdown(section(of_phase, str(phase)))]
    return document(*parts)


def section(rows: pd.DataFrame, phase: str) -> pd.DataFrame:
    """Return a row per length, slowdown and case of one phase."""
    calls = 1.0 if phase == names.PREFILL else rows["decode_tokens"].astype(float)
    is_even = (rows[names.IMPLEMENTATION] == names.RING) & (rows[STRATEGY] == EVEN)
    return pd.DataFrame({
        "tokens": rows["seq_len"].astype(int),
        "slowdown": rows["slowdown"].map(str),
        "implementation": rows[names.IMPLEMENTATION],
        "strategy": rows[STRATEGY],
        "tokens per rank": rows[TOKENS].astype(str) if TOKENS in rows else "",
        LABELS[phase]: rows["median_s"] / calls * 1e3,
        "tokens/s": rows["tokens_per_second"],
        "speedup over even ring": rows["paired_speedup"].astype(float).mask(is_even, 1.0),
        "speedup over one rank": rows["over_single"],
    })  # fmt: skip


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return a figure per phase of each group, with a panel per length and slowdown."""
    return {
        f"{SUITE}_{phase}{suffix}": bars(of_phase, str(phase)).of_group(suffix)
        for suffix, rows in groups_of(table)
        for phase, of_phase in fill_with_ranges(rows).groupby(names.PHASE, sort=False)
    }


def bars(rows: pd.DataFrame, phase: str) -> Chart:
    """Return a chart with a bar and its interval per implementation and strategy."""
    rows = rows.sort_values(CELL, kind="stable")
    calls = 1.0 if phase == names.PREFILL else rows["decode_tokens"].astype(float)
    times = rows.assign(**rows[list(TIMES)].astype(float).mul(1e3).div(calls, axis=0))
    panels = [
        f"{length:g} tokens, slowdown {slowdown}"
        for length, slowdown in zip(*(rows[name] for name in CELL), strict=True)
    ]
    return Chart(
        mark=BARS,
        title=f"Decoder on a split sequence: {phase}",
        note=f"median, {describe_error_bars(rows)}; "
        "single: the first rank alone, which is not slowed",
        x=Axis("implementation and strategy", NAMES),
        y=Axis(LABELS[phase]),
        points=chart_points(
            times,
            rows[names.IMPLEMENTATION] + " " + rows[STRATEGY],
            TIMES,
            rows[names.IMPLEMENTATION],
            panels,
        ),
        series=(names.RING, names.ALL_GATHER, names.SINGLE),
        is_shared=False,
    )
