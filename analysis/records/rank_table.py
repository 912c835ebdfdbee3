"""One table of the ranks of all cases.

It is made column by column: a dictionary per row takes a multiple of the time and memory.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from analysis.records.results import Cell, RanksOfRecord, decode_ranks


def rank_table(records: Iterable[RanksOfRecord]) -> pd.DataFrame:
    """Make one row per rank and case, see `analysis.records.per_rank.derive_ranks`."""
    columns: dict[str, list[Cell]] = {}
    height = 0
    for record in records:
        for case in decode_ranks(record.ranks):
            count = len(case.columns["rank"] or ())
            append(columns, height, count, {**record.shared, **case.labels, **case.columns})
            height += count
    # Each list is freed as soon as its column is made: many ranks have millions of cells.
    return pd.DataFrame({name: pd.Series(columns.pop(name)) for name in list(columns)})


def append(
    columns: dict[str, list[Cell]],
    height: int,
    count: int,
    cells: Mapping[str, Cell | list[Cell]],
) -> None:
    """Add rows to columns, with one cell per row or one for all; missing cells are None."""
    for name, cell in cells.items():
        if name not in columns:
            columns[name] = [None] * height
        columns[name] += cell if isinstance(cell, list) else [cell] * count
    if len(cells) < len(columns):
        for name in columns.keys() - cells.keys():
            columns[name] += [None] * count
