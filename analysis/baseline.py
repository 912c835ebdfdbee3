"""Marks the rows that speedups compare with."""

import argparse
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd


class BaselineError(Exception):
    """The baseline names a column or a value that the table does not have."""


@dataclass(frozen=True)
class Baseline:
    """Marks the rows to compare with.

    Attributes:
        values: by column, as text: {"world_size": "2"}.
    """

    values: dict[str, str]

    @staticmethod
    def parse(text: str) -> "Baseline":
        """Read `key=value[,key=value]`."""
        pairs = [item.partition("=") for item in text.split(",")]
        if not all(name and sign and value for name, sign, value in pairs):
            usage = "expected KEY=VALUE[,KEY=VALUE], e.g. world_size=2"
            raise argparse.ArgumentTypeError(f"{text!r}: {usage}")
        return Baseline({name: value for name, _, value in pairs})

    def holds(self, rows: pd.DataFrame) -> pd.Series:
        """Return which rows are the baseline."""
        chosen = pd.Series(True, index=rows.index)
        for name, value in self.values.items():
            chosen &= rows[name].map(partial(same, name, value=value)).astype(bool)
        return chosen

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


def default_baseline(table: pd.DataFrame) -> Baseline:
    """Choose the smallest world size that was measured.

    One rank communicates nothing, so it is chosen only where no other world size was measured.
    """
    sizes = table.loc[table["status"] == "ok", "world_size"]
    several = sizes[sizes > 1]
    return Baseline({"world_size": str((sizes if several.empty else several).min())})


def same(column: str, held: Any, value: str) -> bool:
    """Return whether a cell holds what the user typed.

    Numbers compare as numbers, and torch "2.13.0" includes 2.13.0+cpu.
    """
    if column == "torch" and str(held).partition("+")[0] == value:
        return True
    try:
        return float(held) == float(value)
    except (TypeError, ValueError):
        return str(held) == value
