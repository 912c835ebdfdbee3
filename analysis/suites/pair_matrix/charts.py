"""Heat maps of the time of each pair and of each group, relative to the median of its kind."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.records.places import RankMapping
from analysis.records.suite_rows import group_by_layout, measured_rows, records_of
from analysis.report.chart import CELLS, NAMES, PAGE_ROW, Axis, Chart, Charts, chart_points
from analysis.suites.pair_matrix.matrix import SUITE, Level, PairTimes, levels, matrices
from analysis.table.variants import Baseline
from benchkit.record.naming import format_bytes

COMPARED = (SUITE,)
"""Suites whose comparisons are drawn here."""
RATIO = Axis("time over the median of its kind")


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    charts: Charts = {}
    rows = measured_rows(table, SUITE)
    for suffix, records in group_by_layout(records_of(table, SUITE)):
        pair_tables = matrices(records)
        for pairs in pair_tables:
            size = format_bytes(pairs.size_mib * 2**20).replace(" ", "")
            direction = "_both_ways" if pairs.at_once else ""
            charts[f"pairs_{size}{direction}{suffix}"] = map_of_pairs(pairs, rows)
        if groups := levels(records):
            charts[f"groups{suffix}"] = map_of_groups(groups, pair_tables[0].places, rows)
    return charts


def order_of(places: Sequence[RankMapping]) -> list[int]:
    hosts = list(dict.fromkeys(place.host for place in places))
    return sorted(range(len(places)), key=lambda rank: (hosts.index(places[rank].host), rank))


def map_of_pairs(matrix: PairTimes, rows: pd.DataFrame) -> Chart:
    """Map the time of each pair: a row per sender, with the ranks of a node side by side."""
    names = names_of(matrix.places)
    ratios, seconds = matrix.ratios(), matrix.seconds()
    timed = "an exchange" if matrix.at_once else "a message and its short answer"
    order = order_of(matrix.places)
    pairs = [(i, j) for j in order for i in order]
    cells = pd.DataFrame({
        "series": [names[i] for i, _ in pairs],
        "x": [names[j] for _, j in pairs],
        "value": [ratios[pair] for pair in pairs],
        "text": [f"{1e3 * seconds[pair]:.3g}" for pair in pairs],
    })  # fmt: skip
    return map_of(
        cells,
        rows,
        title=f"Pairs of ranks, {matrix.name}",
        note=f"down: who sends; numbers: ms, median of {timed}; a kind: pairs on one node, or "
        "across nodes",
        x=Axis("receives", NAMES),
        series=[names[rank] for rank in order],
    )


def map_of_groups(
    groups_by_level: Sequence[Level], places: Sequence[RankMapping], rows: pd.DataFrame
) -> Chart:
    """Map the time of the group of each rank: a row per level of nested groups."""
    names = names_of(places)
    cells = []
    for level in groups_by_level:
        typical = float(np.median(level.seconds))
        for rank in order_of(places):
            seconds = float(level.seconds[level.group_of[rank]])
            cells.append((level.name, names[rank], seconds / typical, f"{1e3 * seconds:.3g}"))
    return map_of(
        pd.DataFrame(cells, columns=["series", "x", "value", "text"]),
        rows,
        title="Nested groups",
        note="numbers: ms, median of an all-reduce of the largest size in the group of each rank, "
        "all groups of a level at the same time; a kind: the groups of a level",
        x=Axis("rank", NAMES),
        series=[level.name for level in groups_by_level],
    )


def names_of(places: Sequence[RankMapping]) -> list[str]:
    """Return the name of each rank: its number and, with several nodes, the name of its node."""
    has_nodes = len({place.host for place in places}) > 1
    return [f"{place.rank} {place.host}" if has_nodes else str(place.rank) for place in places]


def map_of(
    cells: pd.DataFrame,
    rows: pd.DataFrame,
    *,
    title: str,
    note: str,
    x: Axis,
    series: Sequence[str],
) -> Chart:
    """Make a map of ratios to 1; `rows` name the hardware of all cells."""
    for name in ("suite", "device_name", PAGE_ROW):
        if name in rows:
            cells[name] = rows[name].iloc[0]
    points = chart_points(cells, cells["x"], ("value",), cells["series"], text=cells["text"])
    return Chart(
        mark=CELLS,
        title=title,
        note=note,
        x=x,
        y=RATIO,
        points=points,
        series=tuple(series),
        reference=1.0,
    )
