"""Charts of strategies that split a sequence, over slowdown and length."""

import pandas as pd

from analysis.report.chart import (
    LINES,
    LOG,
    NAMES,
    STACKS,
    TIMES,
    Axis,
    Chart,
    Charts,
    chart_points,
    group_charts,
)
from analysis.suites.ring_attention.table import (
    EFFICIENCY,
    RATIO,
    SUITE,
    cells_of,
    label_of,
    with_efficiencies,
)
from analysis.table.repetitions import describe_error_bars, fill_with_ranges
from analysis.table.variants import Baseline
from benchkit.suites.ring_attention.suite import REFERENCE, STRATEGY, TOKENS, TORCH

OTHERS = (REFERENCE, TORCH)
"""Cases that are no strategies for ranks of unequal speed."""
OF_IDEAL = (
    EFFICIENCY, "ideal time / time [%]", "ideal: all the work over all the speed, by the cost model"
)  # fmt: skip
OF_REFERENCE = (
    RATIO, "T_ref / T [%]", "T_ref: measured with an even split and all ranks at full speed"
)  # fmt: skip
"""Kinds of efficiency: columns, label and note."""


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    return group_charts(SUITE, cells_of(table), charts_of)


def charts_of(cells: pd.DataFrame) -> Charts:
    rows = fill_with_ranges(cells)
    compared = rows[rows[STRATEGY].isin(strategies_of(rows))]
    charts: Charts = {}
    charts["latency_scaling"] = latency_scaling(rows)
    compared = with_efficiencies(rows).loc[compared.index]
    if compared[RATIO[0]].notna().any():
        charts["reference_efficiency"] = efficiency(compared, *OF_REFERENCE)
    charts["efficiency"] = efficiency(compared, *OF_IDEAL)
    if TOKENS in compared and compared[TOKENS].notna().any():
        charts["tokens"] = tokens(compared)
    return charts


def points_over_slowdown(rows: pd.DataFrame, values: tuple[str, ...], scale: float) -> pd.DataFrame:
    """Return points with a panel per length and a line per strategy."""
    lengths = rows["seq_len"].map("{:g} tokens".format)
    return chart_points(rows, rows["slowdown"].map(str), values, rows[STRATEGY], lengths, scale)


def efficiency(rows: pd.DataFrame, columns: tuple[str, str, str], label: str, note: str) -> Chart:
    return Chart(
        mark=LINES,
        title=f"Ring attention: {label.removesuffix(' [%]')}",
        note=f"{note}; {describe_error_bars(rows)}",
        x=Axis(label_of(rows), NAMES),
        y=Axis(label),
        points=points_over_slowdown(rows, columns, 100),
        series=tuple(strategies_of(rows)),
        reference=100,
    )


def latency_scaling(rows: pd.DataFrame) -> Chart:
    """Return a chart of time over length, a panel per slowdown; for one length, over slowdown."""
    has_lengths = rows["seq_len"].nunique() > 1
    ordered = rows.sort_values(["slowdown", "seq_len"], kind="stable")
    panels = ordered["slowdown"].map("slowdown {}".format)
    over_length = chart_points(ordered, ordered["seq_len"], TIMES, ordered[STRATEGY], panels, 1e3)
    return Chart(
        mark=LINES,
        title="Ring attention: latency",
        note=f"median, {describe_error_bars(rows)}",
        x=Axis("tokens", LOG) if has_lengths else Axis(label_of(rows), NAMES),
        y=Axis("time of one layer [ms]", LOG),
        points=over_length if has_lengths else points_over_slowdown(ordered, TIMES, 1e3),
        series=tuple(strategies_of(rows)),
    )


def tokens(rows: pd.DataFrame) -> Chart:
    """Return a chart of the shares of ranks, a panel per slowdown.

    It shows the longest of the sequences with most slowdowns.
    """
    rows = rows[rows[TOKENS].notna()]
    counts = rows.groupby("seq_len")["slowdown"].nunique()
    length = counts[counts == counts.max()].index.max()
    longest = rows[rows["seq_len"] == length]
    shares = longest[TOKENS].map(shares_of)
    per_rank = longest.assign(share=shares, rank=shares.map(lambda share: range(len(share))))
    per_rank = per_rank.explode(["share", "rank"]).sort_values(["slowdown", "rank"], kind="stable")
    panels = per_rank["slowdown"].map("slowdown {}".format)
    series = per_rank["rank"].map("rank {}".format)
    return Chart(
        mark=STACKS,
        title=f"Ring attention: tokens per rank of {length:g}",
        note="of the latest run" if longest["num_runs"].max() > 1 else "",
        x=Axis("strategy", NAMES),
        y=Axis("share of the tokens [%]"),
        points=chart_points(
            per_rank.reset_index(drop=True),
            per_rank[STRATEGY].tolist(),
            ("share",),
            series.tolist(),
            panels.tolist(),
        ),
    )


def strategies_of(rows: pd.DataFrame) -> list[str]:
    """Return the strategies, without OTHERS, in the order of their rows."""
    return [name for name in dict.fromkeys(rows[STRATEGY]) if name not in OTHERS]


def shares_of(text: object) -> list[float]:
    """Compute each rank's share of the tokens in percent, from "[4096, 2048]"."""
    counts = [float(count) for count in str(text).strip("[]").split(",")]
    return [100 * count / sum(counts) for count in counts]
