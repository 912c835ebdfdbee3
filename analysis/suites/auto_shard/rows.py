"""Rows of auto_shard that may stand in one table: cases, their bases and speedups."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from analysis.groups import alike, by_fewest_ranks
from analysis.repetitions import over_runs
from analysis.suites.auto_shard.scaling import PHASES, Row

SUITE, RESIDENT, END_TO_END = "auto_shard", "resident", "end_to_end"


CASE = ("workload", "sharding", "ranks", "scope")


SHARDINGS, ONE, INDEPENDENT = ("auto", "axis0", "dispatcher"), "none", "independent"


LIMITS = ["paired_speedup_low", "paired_speedup_high"]


NUMBERS = (
    "ranks", "median_s", "useful_tflop_per_s", "scaling_efficiency", "work_share", "latency_s", "paired_speedup",
    *LIMITS, *(f"{phase}_s" for phase in PHASES),
)  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Rows that may stand in one table, as `compared` makes them."""

    suffix: str
    rows: pd.DataFrame

    @cached_property
    def cases(self) -> dict[tuple[Any, ...], Row]:
        return {tuple(row[name] for name in CASE): row for row in self.rows.to_dict("records")}

    @cached_property
    def bases(self) -> dict[tuple[str, str], Row]:
        """By workload and scope the case that the others are compared with."""
        return {(row["workload"], row["scope"]): row for row in self.cases.values() if row["is_base"]}

    @property
    def counts(self) -> list[int]:
        return sorted(int(count) for count in self.rows["ranks"].dropna().unique())

    @property
    def main(self) -> str:
        """The sharding that is shown where only one is: auto, else the first there is."""
        return next((name for name in SHARDINGS if (self.rows["sharding"] == name).any()), ONE)

    @property
    def further(self) -> pd.DataFrame:
        """Cases that have a speedup over fewer devices."""
        return self.rows[self.rows["speedup"].notna() & (self.rows["ranks"] > self.rows["base_ranks"])]


def groups_of(table: pd.DataFrame) -> list[Group]:
    """All that was tried, by what is alike but for the case (analysis.groups.alike)."""
    rows = table[table["suite"] == SUITE]
    if rows.empty:
        return []
    rows = rows.reindex(columns=list(dict.fromkeys((*rows, *CASE, *NUMBERS, "plan"))))
    rows = rows.assign(**{name: pd.to_numeric(rows[name], errors="coerce") for name in NUMBERS})
    return [Group(suffix, compared(part)) for suffix, part in by_fewest_ranks(alike(rows, *CASE))]


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per case over all runs, with its `speedup` over that of its job on the fewest devices, which has 1."""
    rows = over_runs(rows, *CASE)
    fewest = rows[rows["ranks"] == rows["base_ranks"]]  # of these the one that is compared with none
    first = fewest.sort_values("paired_speedup", na_position="first", kind="stable")
    is_base = rows.index.isin(first.drop_duplicates(["workload", "scope"]).index)
    speedup = rows["paired_speedup"].mask(is_base & (rows["status"] == "ok"), 1.0)
    return rows.assign(is_base=is_base, speedup=speedup)
