"""Groups rows of auto_shard that may stand in one table, with their bases and speedups."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import pandas as pd

from analysis.groups import alike
from analysis.repetitions import over_runs
from analysis.suites.auto_shard.scaling import Row
from benchkit.suites.auto_shard.names import (
    AUTO,
    AXIS0,
    DISPATCHER,
    LATENCY_S,
    RANKS,
    SCOPE,
    SHARDING,
    UNSHARDED,
    WORK_SHARE,
    Phase,
)

SUITE = "auto_shard"
CASE = ("workload", SHARDING, RANKS, SCOPE)
SHARDINGS = (AUTO, AXIS0, DISPATCHER)
"""The rules that are compared with each other."""
LIMITS = ["paired_speedup_low", "paired_speedup_high"]
NUMBERS = (
    RANKS, "median_s", "useful_tflop_per_s", "scaling_efficiency", WORK_SHARE, LATENCY_S,
    "paired_speedup", *LIMITS, *(f"{phase}_s" for phase in Phase),
)  # fmt: skip


@dataclass(frozen=True)
class Group:
    """Rows that may stand in one table, as `compared` makes them.

    Attributes:
        suffix: of the names of files, "" where there is but one group.
        rows: one per case.
    """

    suffix: str
    rows: pd.DataFrame

    @cached_property
    def cases(self) -> dict[tuple[Any, ...], Row]:
        """The rows by the values of CASE."""
        case_of = itemgetter(*CASE)
        return {case_of(row): row for row in self.rows.to_dict("records")}

    @cached_property
    def bases(self) -> dict[tuple[str, str], Row]:
        """By workload and scope: the case that the others are compared with."""
        bases = [row for row in self.cases.values() if row["is_base"]]
        return {(row["workload"], row[SCOPE]): row for row in bases}

    @property
    def counts(self) -> list[int]:
        """The numbers of devices, ascending."""
        return sorted(int(count) for count in self.rows[RANKS].dropna().unique())

    @property
    def main(self) -> str:
        """The sharding that is shown where only one is: auto, else the first there is."""
        return next((name for name in SHARDINGS if (self.rows[SHARDING] == name).any()), UNSHARDED)

    @property
    def further(self) -> pd.DataFrame:
        """Cases that have a speedup over fewer devices."""
        more = self.rows[RANKS] > self.rows["base_ranks"]
        return self.rows[self.rows["speedup"].notna() & more]


def groups_of(table: pd.DataFrame) -> list[Group]:
    """Group all cases that were tried; rows of a group differ in the case alone (`alike`)."""
    rows = table[table["suite"] == SUITE]
    if rows.empty:
        return []
    rows = rows.reindex(columns=list(dict.fromkeys((*rows, *CASE, *NUMBERS))))
    numbers = {name: pd.to_numeric(rows[name], errors="coerce") for name in NUMBERS}
    rows = rows.assign(**numbers)
    groups = by_fewest_ranks(alike(rows, *CASE))
    return [Group(suffix, compared(part)) for suffix, part in groups]


def by_fewest_ranks(
    groups: Iterable[tuple[str, pd.DataFrame]],
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Add `base_ranks` to rows, the fewest ranks of their workload and scope in their job.

    Speedups are over those ranks. Jobs of a workload that differ in them are therefore separated
    into groups of their own, each with a further suffix. Jobs that failed as a whole have no known
    ranks and belong to each group.
    """
    job = ["run", "point_id", "started_at", "workload", SCOPE]
    for suffix, rows in groups:
        rows = rows.assign(base_ranks=rows.groupby(job, dropna=False)[RANKS].transform("min"))
        base_ranks = rows["base_ranks"]
        if rows.groupby("workload")["base_ranks"].nunique().max() < 2:
            yield suffix, rows
            continue
        for number in sorted(base_ranks.dropna().unique()):
            name = f"{suffix}_base_ranks-{number:g}"
            yield name, rows[base_ranks.isna() | (base_ranks == number)]


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Reduce the rows to one per case over all runs, with its `speedup`.

    The speedup is over the case of its job on the fewest devices, which has 1.
    """
    rows = over_runs(rows, *CASE)
    fewest = rows[rows[RANKS] == rows["base_ranks"]]
    # The base is the one of these that has no paired speedup, since it is compared with no other.
    first = fewest.sort_values("paired_speedup", na_position="first", kind="stable")
    is_base = rows.index.isin(first.drop_duplicates(["workload", SCOPE]).index)
    speedup = rows["paired_speedup"].mask(is_base & (rows["status"] == "ok"), 1.0)
    return rows.assign(is_base=is_base, speedup=speedup)
