"""Speedup of each row over the row that differs from it only in the keys of the baseline.

The column `speedup` is the baseline's median / the row's own median. Ratios are formed within each
run. The column `speedup_basis` says how far one can be trusted:

- "within the run": baseline and row were measured in one run alone. speedup_low and speedup_high
  are the extremes that the 95 % intervals of the two medians allow together. Rows of one run are
  different jobs: their samples are not paired, and this interval contains neither the spread
  between processes nor the spread between runs.
- "N runs": the median of the ratios of N runs, with the 95 % order-statistic interval of that
  median. With fewer than 6 runs there is no interval; speedup_range_low and speedup_range_high are
  the extremes of the ratios.
- "across runs: …": no run has both. The ratio is that of the medians over runs. It has an interval
  only where each side has 6 runs or more: the extremes that the two intervals between runs allow.

Every function is a pure function of the table.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from analysis.repetitions import FEWEST_RUNS, WITHIN, over_runs
from analysis.table import identity_columns


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


TIMES = ["median_s", "ci_low_s", "ci_high_s"]
ACROSS = "across runs"
UNKNOWN = f"{ACROSS}: spread between runs unknown"


def speedups(table: pd.DataFrame, baseline: Baseline) -> pd.DataFrame:
    """Compute the speedup of all measured rows that have a partner in the baseline.

    Args:
        table: the combined table, or rows of it.
        baseline: the values that mark the rows to compare with.

    Returns:
        One row per identity (see `analysis.repetitions.over_runs`), in order of time.

    Raises:
        BaselineError: for a key that the table does not have or a value that it does not hold.
    """
    columns = identity_columns(table)
    for name in baseline.values:
        if name not in columns:
            allowed = f"allowed are {', '.join(columns)}"
            raise BaselineError(f"--baseline {baseline}: no column {name}; {allowed}")
    measured = table[table["status"] == "ok"]
    if not baseline.holds(measured).any():
        raise BaselineError(f"--baseline {baseline}: no measured row has it")
    rest = [name for name in columns if name not in baseline.values]
    per_run = over_runs(measured, *columns, "run")
    paired = over_runs(with_partners(per_run, baseline, [*rest, "run"]), *columns)
    basis = paired["num_runs"].map(lambda runs: WITHIN if runs == 1 else f"{runs:g} runs")
    paired_rows = paired.assign(speedup_basis=basis)
    apart = across_runs(over_runs(per_run, *columns), paired[columns], baseline, rest)
    found = [rows for rows in (paired_rows, apart) if not rows.empty]
    return pd.concat(found, ignore_index=True) if found else paired_rows


def with_partners(rows: pd.DataFrame, baseline: Baseline, alike: list[str]) -> pd.DataFrame:
    """Join rows with their partner in the baseline, and add their speedup and its extremes.

    Args:
        rows: one per point, or per point and run.
        alike: the columns in which a row and its partner are equal. Rows without a partner are
            dropped.
    """
    partners = over_runs(rows[baseline.holds(rows)], *alike)[[*alike, *TIMES, "num_runs"]]
    joined = rows.merge(partners, on=alike, suffixes=("", "_baseline"))
    return joined.assign(
        speedup=joined["median_s_baseline"] / joined["median_s"],
        speedup_low=joined["ci_low_s_baseline"] / joined["ci_high_s"],
        speedup_high=joined["ci_high_s_baseline"] / joined["ci_low_s"],
    )


def across_runs(
    points: pd.DataFrame, done: pd.DataFrame, baseline: Baseline, rest: list[str]
) -> pd.DataFrame:
    """Compare the medians over runs of points that share no run with the baseline.

    Args:
        points: one row per point, merged over its runs.
        done: the identities of points that do share a run; they are left out.
        baseline: marks the rows to compare with.
        rest: the identity columns that are not of the baseline.
    """
    paired = with_partners(points, baseline, rest)
    marked = paired.merge(done, on=list(done), how="left", indicator="shared")
    apart = marked[marked["shared"] == "left_only"].drop(columns="shared")
    fewest = apart[["num_runs", "num_runs_baseline"]].min(axis="columns")
    known = fewest >= FEWEST_RUNS
    limits = {name: apart[name].where(known) for name in ("speedup_low", "speedup_high")}
    basis = [
        f"{ACROSS}: {runs:g} or more" if enough else UNKNOWN
        for runs, enough in zip(fewest, known, strict=True)
    ]
    return apart.assign(**limits, speedup_basis=basis)


def compared(
    table: pd.DataFrame, baseline: Baseline | None
) -> Iterator[tuple[str, Baseline, pd.DataFrame]]:
    """Yield the speedups of each title, without the rows of the baseline itself.

    Args:
        table: the combined table, or rows of it.
        baseline: marks the rows to compare with. By default each suite has its own.

    Yields:
        The title, its baseline, and its rows; only where there are such rows.
    """
    measured = table[table["status"] == "ok"]
    for title, rows in measured.groupby("title"):
        chosen = baseline or default_baseline(rows)
        if not chosen.holds(rows).any():
            continue
        found = speedups(rows, chosen)
        found = found[~chosen.holds(found)]
        if not found.empty:
            yield str(title), chosen, in_order(found)


def inner_columns(rows: pd.DataFrame, baseline: Baseline) -> list[str]:
    """Return the settings in which the rows differ, apart from the keys of the baseline."""
    varied = [name for name in identity_columns(rows) if rows[name].nunique(dropna=False) > 1]
    return [name for name in varied if name not in baseline.values]


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by what was measured; numbers by their value."""

    def ranks(values: pd.Series) -> pd.Series:
        numbers = pd.to_numeric(values, errors="coerce")
        return numbers if numbers.notna().all() else values.map(str, na_action="ignore")

    columns = identity_columns(rows)
    varied = [name for name in columns if rows[name].nunique(dropna=False) > 1]
    return rows.sort_values(varied, key=ranks, kind="stable") if varied else rows


def unpaired(table: pd.DataFrame, baseline: Baseline) -> str:
    """Say why no row is comparable with a baseline that was found: what else differs.

    Returns:
        The reason, with all columns that differ too; "" where some row is comparable.
    """
    measured = table[table["status"] == "ok"]
    if any(True for _ in compared(measured, baseline)):
        return ""
    is_baseline = baseline.holds(measured)
    apart = []
    for name in identity_columns(table):
        if name in baseline.values or is_baseline.all():
            continue
        values = measured[name].astype(object).where(measured[name].notna(), None)
        if not set(values[is_baseline]) & set(values[~is_baseline]):
            apart.append(name)
    also = f"; name what differs, too: {', '.join(apart)}" if apart else ""
    keys = " and ".join(baseline.values)
    return f"--baseline {baseline}: no row differs from it in {keys} alone{also}"


FRESH = "fresh ranks"
"""In the column `speedup_from`; it is empty where the cases took turns."""
LIMITS = ("paired_speedup_low", "paired_speedup_high")


def with_fresh_speedups(table: pd.DataFrame) -> pd.DataFrame:
    """Replace `paired_speedup` by `alone_speedup` where the two differ.

    Both cases of `paired_speedup` took turns in one job, those of `alone_speedup` were alone in
    fresh ranks. `is_changed` says of each point whether their ratio is more than chance; then all
    rows of the point take the latter, which has an interval over runs alone, and keep the former in
    `speedup_in_turns`.
    """
    known = table["alone_speedup"].notna() & table["paired_speedup"].notna()
    if not known.any():
        return table
    rows = table[known]
    columns = identity_columns(table)
    rows = rows.assign(turns_ratio=rows["paired_speedup"] / rows["alone_speedup"])
    points = over_runs(rows, *columns)
    number = rows.groupby(columns, dropna=False, sort=False).ngroup()
    changed = {number[index] for index, point in points.iterrows() if is_changed(point)}
    fresh = number.isin(changed).reindex(table.index, fill_value=False)
    in_turns, alone = table["paired_speedup"], table["alone_speedup"]
    return table.assign(
        speedup_from=table["speedup_from"].astype(object).mask(fresh, FRESH),
        speedup_in_turns=in_turns.where(fresh),
        paired_speedup=in_turns.mask(fresh, alone),
        **{name: table[name].mask(fresh) for name in LIMITS},
    )


def is_changed(point: Any) -> bool:
    """Return whether `turns_ratio` of a row of `over_runs` is more than chance.

    Its interval between runs leaves out 1 or, where there are too few runs for one, it is beyond
    what two identical runs differ by. Without a noise floor nothing is more than chance.
    """
    ratio = point["turns_ratio"]
    if pd.notna(point["turns_ratio_low"]):
        return not point["turns_ratio_low"] <= 1 <= point["turns_ratio_high"]
    return bool(max(ratio, 1 / ratio) - 1 > point["identical_runs"])
