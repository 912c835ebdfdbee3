"""Makes one table of the ranks of all cases.

It is made column by column, because a dictionary per row takes a multiple of the time and memory.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from analysis.records.figures import Cell, RecordFigures, decode_ranks


def rank_table(records: Iterable[tuple[RecordFigures, str]]) -> pd.DataFrame:
    """Make one row per rank and case, see `analysis.records.per_rank.rank_rows`.

    Args:
        records: the figures of each record, and its run.
    """
    columns: dict[str, list[Cell]] = {}
    height = 0
    for figures, run in records:
        for case in decode_ranks(figures.ranks):
            count = len(case.columns["rank"] or ())
            shared = {**figures.settings, "run": run, **case.labels}
            append(columns, height, count, {**shared, **case.columns})
            height += count
    return pd.DataFrame(columns)


def append(
    columns: dict[str, list[Cell]],
    height: int,
    count: int,
    cells: Mapping[str, Cell | list[Cell]],
) -> None:
    """Add rows to columns; what the rows or the columns lack is None.

    Args:
        columns: by name.
        height: of the columns.
        count: of the rows.
        cells: by name, one per row or one for all rows.
    """
    for name, cell in cells.items():
        if name not in columns:
            columns[name] = [None] * height
        columns[name] += cell if isinstance(cell, list) else [cell] * count
    if len(cells) < len(columns):
        for name in columns.keys() - cells.keys():
            columns[name] += [None] * count
