"""Columns of the combined table as a terminal shows them: a head, and cells as text."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.cells import cell_len

from analysis.cells import figure, half_width, measured
from analysis.records.metrics import METRICS
from analysis.repetitions import INTERVALS, RATES
from analysis.table import SPREADS, head_of
from analysis.text import shortened
from benchkit.record.naming import named

FROM_TIME = ("ci_low_s", "ci_high_s", *RATES)
"""Figures that are known as precisely as the median."""
LONG = 40
"""Letters beyond which a text is wrapped."""
SHORTEST = 24
"""Letters of a wrapped text's line at least."""
BY_NAME = {metric.name: metric for metric in METRICS}
NUMBER = re.compile(r"\d+(\.\d+)?")
Outcome = tuple[str, str]
"""A status and its reason."""


@dataclass(frozen=True)
class Shown:
    """A column on the terminal, with the unit on a line below its name.

    Text that is too long for a line may be wrapped.
    """

    head: str
    cells: list[str]
    is_number: bool = False
    is_wrapped: bool = False

    @property
    def width(self) -> int:
        return max(map(cell_len, (*self.head.splitlines(), *self.cells)), default=0)

    @property
    def least_width(self) -> int:
        """Letters below which the column cannot be read."""
        return min(self.width, SHORTEST) if self.is_wrapped else self.width


def column_of(table: pd.DataFrame, name: str) -> Shown:
    """Return a column of the combined table with its values formatted."""
    values = table[name]
    if name in BY_NAME:
        metric = BY_NAME[name]
        numbers, halves = pd.to_numeric(values), half_widths(table, name)
        pairs = zip(numbers * metric.scale, halves * metric.scale, strict=True)
        cells = [measured(*pair) for pair in pairs]
        return Shown(with_unit_below(head_of(metric)), cells, is_number=True)
    if name == "data_size":
        cells = texts(values.map(lambda size: named(name, size), "ignore"))
        return Shown(name, cells, is_number=True)
    if name in SPREADS:
        cells = [measured(100 * value) for value in values]
        return Shown(with_unit_below(SPREADS[name]), cells, is_number=True)
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return Shown(name, [figure(value) for value in values], is_number=True)
    cells = texts(values)
    return Shown(name, cells, is_wrapped=max(map(len, cells), default=0) > LONG)


def half_widths(table: pd.DataFrame, name: str) -> pd.Series:
    """Return half the interval or, of few runs, half the range of each value of a figure.

    Figures FROM_TIME have those of the median in proportion; NaN where neither is known.
    """
    of = "median_s" if name in FROM_TIME else name
    if of not in INTERVALS or of not in table:
        return pd.Series(math.nan, index=table.index)
    unknown = pd.Series(math.nan, index=table.index)
    low, high, least, most = (table.get(end, unknown) for end in INTERVALS[of])
    ends = zip(low.fillna(least), high.fillna(most), strict=True)
    halves = pd.Series([half_width(*pair) for pair in ends], index=table.index)
    return halves if of == name else halves * (table[name] / table[of]).abs()


def with_unit_below(head: str) -> str:
    """Return a head such as "busbw [GB/s]" on two lines."""
    return head.replace(" [", "\n[")


def texts(values: Iterable[Any]) -> list[str]:
    return ["" if pd.isna(value) else str(value) for value in values]


def cases(table: pd.DataFrame, names: list[str]) -> list[str]:
    """Join the settings of each row that vary within its suite: "pipeline AG_before chunks 4"."""
    varies = table[names].groupby(table["suite"]).transform("nunique") > 1
    is_shown = varies & table[names].notna()
    found: list[list[str]] = [[] for _ in range(len(table))]
    for name in names:
        for held, value, shown in zip(found, table[name], is_shown[name], strict=True):
            if shown:
                held.append(value if isinstance(value, str) else f"{name} {named(name, value)}")
    return list(map(" ".join, found))


def outcomes(table: pd.DataFrame) -> Iterator[Outcome]:
    """Yield the status of each row, and the reason where it is not ok."""
    reasons = table["reason"].map(shortened, "ignore").fillna("no reason given")
    yield from zip(table["status"], reasons, strict=True)


def numbered(table: pd.DataFrame) -> dict[Outcome, int]:
    """Number the outcomes other than ok, from 1 on; those that differ in numbers only share one."""
    kinds: dict[Outcome, int] = {}
    found: dict[Outcome, int] = {}
    for status, reason in outcomes(table):
        if status != "ok":
            kind = (status, NUMBER.sub("0", reason))
            found[status, reason] = kinds.setdefault(kind, len(kinds) + 1)
    return found
