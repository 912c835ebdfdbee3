"""Finds the settings by which the rows of a suite can be filtered."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.table import identity_columns
from benchkit.record.naming import named

MOST_CHOICES = 25
"""Values of a filter; a column with more is no filter."""


@dataclass(frozen=True)
class Filter:
    """A setting in which rows differ.

    Attributes:
        column: of the combined table.
        values: as they are shown, in order.
    """

    column: str
    values: list[str]


def filters_of(rows: pd.DataFrame) -> list[Filter]:
    """Return the settings in which the rows differ, and their values in order."""
    found = []
    for column in ("status", *identity_columns(rows)):
        values = rows[column].dropna().unique().tolist()
        if rows[column].nunique(dropna=False) > 1 and len(values) <= MOST_CHOICES:
            numbers = all(isinstance(value, int | float) for value in values)
            ordered = sorted(values) if numbers else list(dict.fromkeys(values))
            missing = [None] if rows[column].isna().any() else []
            choices = map(partial(choice, column), [*ordered, *missing])
            found.append(Filter(column, list(dict.fromkeys(choices))))
    return found


def choice(column: str, value: Any) -> str:
    """Format a value of a filter; "–" stands for rows without one."""
    return "–" if pd.isna(value) else named(column, value)
