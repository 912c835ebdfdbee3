"""Charts of language models: time, throughput, memory, utilisation, scaling and phases."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from analysis.report.chart import (
    BARS,
    LINES,
    LOG,
    MOST_POINTS,
    NAMES,
    RATE,
    TIMES,
    Axis,
    Chart,
    Charts,
    chart_points,
    choose_series_settings,
    group_charts,
    map_unique,
    phases_of_step,
    rates_of,
    setting_name,
)
from analysis.shared.text import format_settings
from analysis.suites.transformer.rows import CASE, SUITE, rows_of, varying_settings
from analysis.table.repetitions import (
    describe_error_bars,
    drop_implied_columns,
    fill_with_ranges,
    group_equal_except,
)
from analysis.table.variants import Baseline
from benchkit.api.case import PEAK_FROM
from benchkit.suites.transformer.suite import FORWARD, PASS, PASSES, PEAK_BYTES, PHASES, RANKS

SHARED = ("device", "device_name", "dtype", "batch_size", "parallel", RANKS)
"""Settings that every figure names, even if constant."""
RANKS_AGAIN = "world_size"  # equals RANKS if all ranks take part
TITLE = "Language model"
UTILISATIONS = {"mfu_full": "every pair of tokens", "mfu_causal": "pairs seen"}
SHARES = {"scaling_efficiency": "efficiency", "comm_share": "communication"}


@dataclass(frozen=True)
class PassGroup:
    """Measured rows that share a figure.

    Attributes:
        suffix: common settings, for file names.
        setting: common settings, in words.
        rows: rows with the columns `variant`, the settings that distinguish the lines of a model,
            and `line`, the name of the line.
        known: lines of all groups, so that each has one style in all figures.
    """

    suffix: str
    setting: str
    rows: pd.DataFrame
    known: list[str]

    @property
    def passes(self) -> list[str]:
        return [name for name in PASSES if (self.rows[PASS] == name).any()]

    def with_positive(self, column: str) -> "PassGroup":
        """Select the rows with a positive number in a column."""
        return replace(self, rows=self.rows[self.rows[column] > 0])


def groups_of(table: pd.DataFrame) -> list[PassGroup]:
    """Group measured rows so that no figure has more lines than fit into a legend.

    Lines differ in the model and in settings with few values, which a reader compares. The other
    settings distinguish figures.
    """
    rows, settings = comparable_rows(table)
    if rows.empty:
        return []
    varied = choose_series_settings(rows, ["model"], settings)
    rows = with_lines(rows, drop_implied_columns(rows, varied))
    common = [name for name in dict.fromkeys((*SHARED, *settings)) if name not in varied]
    constant = [name for name in common if name in rows and rows[name].notna().all()]
    groups = []
    for suffix, part in group_equal_except(rows, *CASE, RANKS_AGAIN, *varied):
        measured = part[part["status"] == "ok"]
        if not measured.empty:
            setting = format_settings(measured, constant)
            groups.append(PassGroup(suffix, setting, measured, list(rows["line"].unique())))
    return groups


def comparable_rows(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Select the rows in which all ranks take part, and the settings in which these differ.

    Rows of a single rank only serve the scaling efficiency.
    """
    rows = rows_of(table)
    if rows.empty:
        return rows, []
    rows = fill_with_ranges(rows[rows[RANKS] == rows[RANKS_AGAIN]])
    return rows, [name for name in varying_settings(rows) if name != RANKS_AGAIN]


def with_lines(rows: pd.DataFrame, settings: list[str]) -> pd.DataFrame:
    """Add the columns `variant` and `line`; sort the lines of a model by their settings."""
    model = rows["model"].astype(str)
    if not settings:
        return rows.assign(variant="", line=model)
    words = [map_unique(rows[name], partial(setting_name, SUITE, name)) for name in settings]
    variant = words[0].str.cat(words[1:], ", ")
    line = model + ", " + variant if model.nunique() > 1 else variant
    places = rows.groupby(settings, dropna=False).ngroup().groupby(model, sort=False)
    order = pd.concat([part.sort_values(kind="stable") for _, part in places]).index
    return rows.assign(variant=variant, line=line).loc[order]


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    groups = ((group.suffix, group) for group in groups_of(table))
    return group_charts(SUITE, groups, charts_of)


def charts_of(group: PassGroup) -> Charts:
    parts = {name: group.with_positive(column) for name, (column, _) in KINDS.items()}
    return {name: KINDS[name][1](part) for name, part in parts.items() if not part.rows.empty}


def step_time(group: PassGroup) -> Chart:
    note = f"median of the slowest rank, {describe_error_bars(group.rows)}"
    label = Axis("time of one step [ms]", LOG)
    return chart_over_context(group, "step time", note, label, points(group.rows, TIMES, 1e3))


def throughput(group: PassGroup) -> Chart:
    rows = group.rows.assign(**rates_of(group.rows, "tokens_per_second"))
    note = f"tokens of a step over its median time, {describe_error_bars(rows)}"
    label = Axis("tokens per second", LOG)
    return chart_over_context(group, "throughput", note, label, points(rows, RATE, 1.0))


def memory(group: PassGroup) -> Chart:
    peaks = points(group.rows, (PEAK_BYTES,), 2**-20)
    return chart_over_context(
        group, "peak memory", "of one rank", Axis("peak memory [MiB]", LOG), peaks
    )


def points(rows: pd.DataFrame, values: tuple[str, ...], scale: float) -> pd.DataFrame:
    return chart_points(rows, rows["context_length"], values, rows["line"], rows[PASS], scale)


def chart_over_context(
    group: PassGroup, title: str, note: str, label: Axis, shown: pd.DataFrame
) -> Chart:
    return Chart(
        mark=LINES,
        title=f"{TITLE}: {title}",
        note=f"{note}\n{group.setting}",
        x=Axis("context [tokens]", LOG),
        y=label,
        points=shown,
        series=tuple(group.known),
    )


def utilisation(group: PassGroup) -> Chart:
    peaks = " or ".join(dict.fromkeys(group.rows[PEAK_FROM].dropna()))
    note = f"against: {peaks}; in attention every pair of tokens counts, or those seen"
    return chart_by_pass(group, "model FLOP/s utilisation", note, Axis("MFU [%]"), UTILISATIONS)


def scaling(group: PassGroup) -> Chart:
    note = (
        "efficiency: speedup over one rank alone, per rank; "
        "communication: what a step sends, alone, over its time"
    )
    return chart_by_pass(group, "scaling", note, Axis("share [%]"), SHARES, reference=100)


def chart_by_pass(
    group: PassGroup,
    title: str,
    note: str,
    label: Axis,
    columns: dict[str, str],
    reference: float | None = None,
) -> Chart:
    """Return a chart with a panel per pass, a name per line and context, and a bar per column."""
    rows, left_out = choose_longest(group.rows, "line")
    places = rows["line"] + ", " + rows["context_length"].astype(str) + " tokens"
    bars = [
        chart_points(rows, places, (column,), name, rows[PASS], 100)
        for column, name in columns.items()
    ]
    return Chart(
        mark=BARS,
        title=f"{TITLE}: {title}",
        note=f"{note}{left_out}\n{group.setting}",
        x=Axis("configuration", NAMES),
        y=label,
        points=pd.concat(bars),
        series=tuple(columns.values()),
        reference=reference,
    )


def choose_longest(rows: pd.DataFrame, line: str) -> tuple[pd.DataFrame, str]:
    """Select the rows to show, and return a note on the others.

    If lines and contexts exceed MOST_POINTS, each line keeps its longest context.
    """
    if len(rows[[line, "context_length"]].drop_duplicates()) <= MOST_POINTS:
        return rows, ""
    contexts = rows["context_length"]
    kept = rows[contexts == contexts.groupby(rows[line]).transform("max")]
    return kept, "; longest context of each line"


def phases(group: PassGroup) -> Chart:
    largest = group.passes[-1]
    rows, left_out = choose_longest(group.rows[group.rows[PASS] == largest], "variant")
    contexts = rows["context_length"].astype(str) + " tokens"
    places = (rows["variant"] + ", ").where(rows["variant"] != "", "") + contexts
    return phases_of_step(
        rows,
        places,
        rows["model"],
        PHASES,
        title=f"{TITLE}: phases of {largest}",
        note=f"{left_out}\n{group.setting}",
        x="configuration",
    )


KINDS: dict[str, tuple[str, Callable[[PassGroup], Chart]]] = {
    "step_time": ("median_s", step_time),
    "tokens_per_second": ("tokens_per_second", throughput),
    "phases": (f"{FORWARD}_s", phases),
    "scaling": ("scaling_efficiency", scaling),
    "mfu": ("mfu_full", utilisation),
    "memory": (PEAK_BYTES, memory),
}
"""By name of the figure: the required column, and the function that makes the chart."""
