"""Speedup of each row over the row that differs from it in the baseline's keys only. A pure function of the table."""

import argparse
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.table import identity_columns, newest


class BaselineError(Exception):
    """The baseline names a column or a value that the table does not have."""


@dataclass(frozen=True)
class Baseline:
    """The values that mark the rows to compare with, as text: {"world_size": "2"}."""

    values: dict[str, str]

    @staticmethod
    def parse(text: str) -> "Baseline":
        """Reads `key=value[,key=value]`."""
        pairs = [item.partition("=") for item in text.split(",")]
        if not all(name and sign and value for name, sign, value in pairs):
            raise argparse.ArgumentTypeError(f"{text!r}: expected KEY=VALUE[,KEY=VALUE], e.g. world_size=2")
        return Baseline({name: value for name, _, value in pairs})

    def holds(self, rows: pd.DataFrame) -> pd.Series:
        """Which rows are the baseline."""
        chosen = pd.Series(True, index=rows.index)
        for name, value in self.values.items():
            chosen &= rows[name].map(lambda held, value=value: same(held, value)).astype(bool)
        return chosen

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


def default_baseline(table: pd.DataFrame) -> Baseline:
    """The smallest world size that was measured; one rank, which communicates nothing, only where there is no other."""
    sizes = table.loc[table["status"] == "ok", "world_size"]
    several = sizes[sizes > 1]
    return Baseline({"world_size": str((sizes if several.empty else several).min())})


def speedups(table: pd.DataFrame, baseline: Baseline) -> pd.DataFrame:
    """The measured rows that have a partner in the baseline, with `speedup` = baseline's median / own median.

    speedup_low, speedup_high: the extremes that the two medians' 95 % intervals allow together, hence a conservative
    interval; the rows are from different jobs, so nothing pairs their samples. Raises BaselineError for a key that the
    table does not have or a value that it does not hold.
    """
    columns = identity_columns(table)
    for name in baseline.values:
        if name not in columns:
            raise BaselineError(f"--baseline {baseline}: no column {name}; allowed are {', '.join(columns)}")
    measured = table[table["status"] == "ok"]
    chosen = baseline.holds(measured)
    if not chosen.any():
        raise BaselineError(f"--baseline {baseline}: no measured row has it")
    rest = [name for name in columns if name not in baseline.values]
    times = ["median_s", "ci_low_s", "ci_high_s"]
    partners = newest(measured[chosen], *rest)[[*rest, *times]]
    joined = measured.merge(partners, on=rest, suffixes=("", "_baseline"))
    joined["speedup"] = joined["median_s_baseline"] / joined["median_s"]
    joined["speedup_low"] = joined["ci_low_s_baseline"] / joined["ci_high_s"]
    joined["speedup_high"] = joined["ci_high_s_baseline"] / joined["ci_low_s"]
    return joined


def same(held: Any, value: str) -> bool:
    """Whether a cell is what the user typed; numbers compare as numbers."""
    try:
        return float(held) == float(value)
    except (TypeError, ValueError):
        return str(held) == value
