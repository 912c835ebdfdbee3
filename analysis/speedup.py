"""Speedup of each row over the row that differs from it in the baseline's keys only. A pure function of the table."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.repetitions import FEWEST_RUNS, WITHIN, over_runs
from analysis.table import identity_columns, subjects

TIMES = ["median_s", "ci_low_s", "ci_high_s"]
ACROSS = "across runs"
UNKNOWN = f"{ACROSS}: spread between runs unknown"


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
            chosen &= rows[name].map(lambda held, name=name, value=value: same(name, held, value)).astype(bool)
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

    Ratios are formed within each run. The columns that say how far one can be trusted:

    - speedup_basis "within the run": baseline and row were measured in one run alone. speedup_low and speedup_high are
      the extremes that the two medians' 95 % intervals allow together. Rows of one run are different jobs: their
      samples are not paired, and the spread between processes, let alone between runs, is not in this interval.
    - "N runs": the median of the ratios of N runs, with the 95 % order-statistic interval of that median. With fewer
      than 6 runs there is none; speedup_range_low and speedup_range_high are the extremes of the ratios.
    - "across runs: …": no run has both. The ratio is of the medians over runs, and has an interval only where each side
      has 6 runs or more: the extremes that the two intervals between runs allow.

    Args:
        table: the combined table, or rows of it.
        baseline: the values that mark the rows to compare with.

    Returns:
        One row for all that is equal in identity (`analysis.repetitions.over_runs`), in order of time.

    Raises:
        BaselineError: for a key that the table does not have or a value that it does not hold.
    """
    columns = identity_columns(table)
    for name in baseline.values:
        if name not in columns:
            raise BaselineError(f"--baseline {baseline}: no column {name}; allowed are {', '.join(columns)}")
    measured = table[table["status"] == "ok"]
    if not baseline.holds(measured).any():
        raise BaselineError(f"--baseline {baseline}: no measured row has it")
    rest = [name for name in columns if name not in baseline.values]
    per_run = over_runs(measured, *columns, "run")
    paired = over_runs(with_partners(per_run, baseline, [*rest, "run"]), *columns)
    basis = paired["num_runs"].map(lambda runs: WITHIN if runs == 1 else f"{runs} runs")
    apart = across_runs(over_runs(per_run, *columns), paired[columns], baseline, rest)
    found = [rows for rows in (paired.assign(speedup_basis=basis), apart) if not rows.empty]
    return pd.concat(found, ignore_index=True) if found else paired.assign(speedup_basis=basis)


def with_partners(rows: pd.DataFrame, baseline: Baseline, alike: list[str]) -> pd.DataFrame:
    """Rows that have a partner in the baseline which is equal in some columns, with their speedup and its extremes."""
    partners = over_runs(rows[baseline.holds(rows)], *alike)[[*alike, *TIMES, "num_runs"]]
    joined = rows.merge(partners, on=alike, suffixes=("", "_baseline"))
    return joined.assign(
        speedup=joined["median_s_baseline"] / joined["median_s"],
        speedup_low=joined["ci_low_s_baseline"] / joined["ci_high_s"],
        speedup_high=joined["ci_high_s_baseline"] / joined["ci_low_s"],
    )


def across_runs(points: pd.DataFrame, done: pd.DataFrame, baseline: Baseline, rest: list[str]) -> pd.DataFrame:
    """Points that share no run with the baseline: the ratio of medians over runs. done: identities to leave out."""
    columns = list(done)
    marked = with_partners(points, baseline, rest).merge(done, on=columns, how="left", indicator="shared")
    apart = marked[marked["shared"] == "left_only"].drop(columns="shared")
    fewest = apart[["num_runs", "num_runs_baseline"]].min(axis="columns")
    known = fewest >= FEWEST_RUNS
    limits = {name: apart[name].where(known) for name in ("speedup_low", "speedup_high")}
    basis = [f"{ACROSS}: {runs:g} or more" if enough else UNKNOWN for runs, enough in zip(fewest, known, strict=True)]
    return apart.assign(**limits, speedup_basis=basis)


def compared(table: pd.DataFrame, baseline: Baseline | None) -> Iterator[tuple[str, Baseline, pd.DataFrame]]:
    """Per suite (or collective) in which something else than the baseline was measured: its speedups, without those.

    By default each has its own baseline.
    """
    measured = table[table["status"] == "ok"]
    for subject, rows in measured.groupby(subjects(measured)):
        chosen = baseline or default_baseline(rows)
        if not chosen.holds(rows).any():
            continue
        found = speedups(rows, chosen)
        found = found[~chosen.holds(found)]
        if not found.empty:
            yield str(subject), chosen, found


def unpaired(table: pd.DataFrame, baseline: Baseline) -> str:
    """Why a baseline that was found has nothing to be compared with: all else that differs; "" where it has."""
    measured = table[table["status"] == "ok"]
    if any(True for _ in compared(measured, baseline)):
        return ""
    mine = baseline.holds(measured)
    names = [name for name in identity_columns(table) if name not in baseline.values]
    told = {name: measured[name].astype(object).where(measured[name].notna(), None) for name in names}
    apart = [name for name, held in told.items() if not mine.all() and not set(held[mine]) & set(held[~mine])]
    also = f"; name what differs, too: {', '.join(apart)}" if apart else ""
    return f"--baseline {baseline}: no row differs from it in {' and '.join(baseline.values)} alone{also}"


def same(column: str, held: Any, value: str) -> bool:
    """Whether a cell is what the user typed; numbers compare as numbers, "2.13.0" is torch 2.13.0+cpu, too."""
    if column == "torch" and str(held).partition("+")[0] == value:
        return True
    try:
        return float(held) == float(value)
    except (TypeError, ValueError):
        return str(held) == value
