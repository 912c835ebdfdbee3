"""Shows strategies of splitting a sequence over slowdown and length, and which is the fastest."""

import pandas as pd

from analysis.repetitions import bars_of, with_ranges
from analysis.report.chart import CELLS, LINES, LOG, NAMES, STACKS, Axis, Chart, Charts, points_of
from analysis.speedup import Baseline
from analysis.suites.ring_attention.plot import (
    OF_IDEAL,
    OF_REFERENCE,
    TIMES,
    efficiency_title,
    strategies_of,
)
from analysis.suites.ring_attention.table import (
    RATIO,
    SPEEDUP,
    SUITE,
    cells_of,
    label_of,
    with_efficiencies,
)
from analysis.suites.ring_attention.token_plot import shares_of
from analysis.suites.ring_attention.winner_plot import winner_of
from benchkit.suites.ring_attention.names import EVEN, STRATEGY, TOKENS


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return up to six figures per group of rows that differ in strategy, length and slowdown."""
    charts: Charts = {}
    for suffix, rows in cells_of(table):
        for name, chart in charts_of(with_ranges(rows)).items():
            charts[f"{SUITE}_{name}{suffix}"] = chart.of_group(suffix)
    return charts


def charts_of(rows: pd.DataFrame) -> Charts:
    own = rows[rows[STRATEGY].isin(strategies_of(rows))]
    charts: Charts = {}
    if own["paired_speedup"].notna().any():
        charts["speedup_over_even"] = speedup_over_even(own)
    charts["winner"] = winners(own)
    charts["latency_scaling"] = latency_scaling(rows)
    own = with_efficiencies(rows).loc[own.index]
    if own[RATIO[0]].notna().any():
        charts["reference_efficiency"] = efficiency(own, *OF_REFERENCE)
    charts["efficiency"] = efficiency(own, *OF_IDEAL)
    if TOKENS in own and own[TOKENS].notna().any():
        charts["tokens"] = tokens(own)
    return charts


def over_slowdown(rows: pd.DataFrame, values: tuple[str, ...], scale: float) -> pd.DataFrame:
    """Return points with a panel per length and a line per strategy."""
    lengths = rows["seq_len"].map("{:g} tokens".format)
    return points_of(rows, rows["slowdown"].map(str), values, rows[STRATEGY], lengths, scale)


def speedup_over_even(rows: pd.DataFrame) -> Chart:
    return Chart(
        mark=LINES,
        title="Ring attention: speedup over an even split",
        note=f"median of paired blocks, {bars_of(rows, SPEEDUP[1])}",
        x=Axis(label_of(rows), NAMES),
        y=Axis("time of even / time", LOG),
        points=over_slowdown(rows[rows[STRATEGY] != EVEN], SPEEDUP, 1.0),
        series=tuple(strategies_of(rows)),
        reference=1,
    )


def efficiency(rows: pd.DataFrame, columns: tuple[str, str, str], label: str, note: str) -> Chart:
    return Chart(
        mark=LINES,
        title=efficiency_title(label),
        note=f"{note}; {bars_of(rows)}",
        x=Axis(label_of(rows), NAMES),
        y=Axis(label),
        points=over_slowdown(rows, columns, 100),
        series=tuple(strategies_of(rows)),
        reference=100,
    )


def latency_scaling(rows: pd.DataFrame) -> Chart:
    """Show time over length, a panel per slowdown; of one length, time over slowdown."""
    several = rows["seq_len"].nunique() > 1
    ordered = rows.sort_values(["slowdown", "seq_len"], kind="stable")
    panels = ordered["slowdown"].map("slowdown {}".format)
    along = points_of(ordered, ordered["seq_len"], TIMES, ordered[STRATEGY], panels, 1e3)
    return Chart(
        mark=LINES,
        title="Ring attention: latency",
        note=f"median, {bars_of(rows)}",
        x=Axis("tokens", LOG) if several else Axis(label_of(rows), NAMES),
        y=Axis("time of one layer [ms]", LOG),
        points=along if several else over_slowdown(ordered, TIMES, 1e3),
        series=tuple(strategies_of(rows)),
    )


def winners(rows: pd.DataFrame) -> Chart:
    """Map the fastest strategy of each cell, with its ties and its speedup over even."""
    cells = [winner_of(cell) for _, cell in rows.groupby(["seq_len", "slowdown"])]
    best = pd.DataFrame([row for row, _, _ in cells]).assign(gain=[gain for _, gain, _ in cells])
    lengths = best["seq_len"].map("{:.0f} tokens".format)
    texts = [text for _, _, text in cells]
    points = points_of(best, best["slowdown"].map(str), ("gain",), lengths, text=texts)
    return Chart(
        mark=CELLS,
        title="Ring attention: the fastest strategy",
        note=f"≈: as fast, as far as is known: {bars_of(rows, SPEEDUP[1])}",
        x=Axis(label_of(rows), NAMES),
        y=Axis("speedup over even"),
        points=points,
    )


def tokens(rows: pd.DataFrame) -> Chart:
    """Show how each strategy splits the longest sequence, a panel per slowdown."""
    length = rows["seq_len"].max()
    longest = rows[(rows["seq_len"] == length) & rows[TOKENS].notna()]
    shares = longest[TOKENS].map(shares_of)
    each = longest.assign(share=shares, rank=shares.map(lambda own: range(len(own))))
    each = each.explode(["share", "rank"]).sort_values(["slowdown", "rank"], kind="stable")
    panels = each["slowdown"].map("slowdown {}".format)
    series = each["rank"].map("rank {}".format)
    return Chart(
        mark=STACKS,
        title=f"Ring attention: tokens per rank of {length:g}",
        note="of the latest run" if longest["num_runs"].max() > 1 else "",
        x=Axis("strategy", NAMES),
        y=Axis("share of the tokens [%]"),
        points=points_of(
            each.reset_index(drop=True),
            each[STRATEGY].tolist(),
            ("share",),
            series.tolist(),
            panels.tolist(),
        ),
    )
