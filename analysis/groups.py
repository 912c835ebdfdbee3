"""Groups rows that are comparable, so that they may stand in one plot or one table.

Each group has a suffix for the name of its file. The suffix is "" where there is only one group.
"""

import re
from collections.abc import Iterator

import pandas as pd

from analysis.table import identity_columns


def alike(rows: pd.DataFrame, *without: str) -> list[tuple[str, pd.DataFrame]]:
    """Group rows that are equal in all identity columns except the columns named."""
    apart = [
        name
        for name in identity_columns(rows)
        if name not in without and rows[name].nunique(dropna=False) > 1
    ]
    if not apart:
        return [("", rows)]
    found = []
    for values, group in rows.groupby(apart, dropna=False):
        words = [re.sub("[^0-9A-Za-z.]+", "-", str(value)) for value in values]
        pairs = "_".join(f"{name}-{word}" for name, word in zip(apart, words, strict=True))
        found.append((f"_{pairs}", group))
    return found


def by_mechanism(rows: pd.DataFrame, *without: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Group as `alike` does, and by mechanism where several mechanisms slowed ranks down.

    Rows without a slowdown have no mechanism. They belong to each group, because the other rows are
    compared with them. For the same reason `slowed_by` cannot be one of the columns of `alike`.
    """
    for suffix, group in alike(rows, *without):
        slowed_by = group["slowed_by"]
        mechanisms = list(slowed_by.dropna().unique())
        if len(mechanisms) < 2:
            yield suffix, group
            continue
        for name in mechanisms:
            yield f"{suffix}_slowed_by-{name}", group[slowed_by.isna() | (slowed_by == name)]


def titled(text: str, suffix: str) -> str:
    """Add to the first line of a text, or to a title, what sets its group apart from others."""
    first, end, rest = text.partition("\n")
    return f"{first} ({suffix.strip('_')}){end}{rest}" if suffix else text
