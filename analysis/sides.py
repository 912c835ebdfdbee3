"""What is compared with what: one row per work and side, with its ratio to the side it is held to.

A suite's question (benchkit.api.question) says which settings are the work, and what competes.
Everything else that differs is a condition. Conditions that differ only as the sides do go with
them; a host of the same kind and a seed are repetitions; any other one makes sides of its own. A
row is compared with the base of equal work that is most like it.

The ratio is the quotient of the two medians, so that it can be checked by the times beside it. What
is known of it, its `basis`, follows from how both were measured: in turns, in several runs, or
apart, where nothing is claimed.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.discover import questions
from analysis.records.figures import Row
from analysis.repetitions import over_runs
from analysis.table import CONDITIONS, identity_columns, own_columns
from benchkit.api.question import FIRST, LEAST, Cells, Comparison, Question
from benchkit.errors import ConfigError
from benchkit.statistics.intervals import median_interval

REPEATS = ("seed", "kernel")
"""Conditions in which repetitions may differ."""
PREFERRED = ("backend", "device", "host", "device_name", "commit", "torch")
"""Of conditions that differ together the first of these names a side."""
RANKS = ("ranks", "world_size")
"""Columns with the number of ranks that work."""
APART = "apart"
"""Of two sides that took no turns and share no run but this."""


class BaselineError(ConfigError):
    """The baseline names a column or a value that the table does not have."""


@dataclass(frozen=True)
class Baseline:
    """What a user compares with, in place of the suites' comparisons: {"world_size": "2"}."""

    values: Cells

    @staticmethod
    def parse(text: str) -> "Baseline":
        """Read `key=value[,key=value]`."""
        pairs = [item.partition("=") for item in text.split(",")]
        if not all(name and sign and value for name, sign, value in pairs):
            usage = "expected KEY=VALUE[,KEY=VALUE], e.g. world_size=2"
            raise argparse.ArgumentTypeError(f"{text!r}: {usage}")
        return Baseline({name: value for name, _, value in pairs})

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


@dataclass(frozen=True)
class Ratio:
    """How many times as fast a side is as another one.

    Attributes:
        base: the other one.
        value: the quotient of their medians, times that of their useful work.
        low, high: the ends of its 95 % interval, or of its range; None where neither is known.
        is_interval: whether they are those of an interval.
        basis: "10 turns", "3 runs", or APART.
    """

    base: "Side"
    value: float
    low: float | None = None
    high: float | None = None
    is_interval: bool = False
    basis: str = APART

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of its interval or range, where they are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def has_one(self) -> bool:
        """Whether its interval or range holds 1, where neither side is the faster one."""
        return self.ends is not None and self.ends[0] <= 1 <= self.ends[1]

    @property
    def is_told_apart(self) -> bool:
        """Whether the two sides differ for certain, as far as these runs go."""
        return self.is_interval and not self.has_one


@dataclass(frozen=True)
class Side:
    """A side in one work.

    Attributes:
        row: its cells in the combined table, merged over its runs.
        work: number of its work; equal works have equal numbers.
        name: what tells it apart from the other sides, in words.
        is_base: whether the others are compared with it.
        is_main: whether the answer is about it, where the question says so.
        is_bound: whether it shows what can be reached, and does not compete.
        is_crowded: whether its ranks have more threads than cores, so that they take turns.
        ratio: over the base; None for the base and for a component of it, and where there is none.
    """

    row: Row
    work: int
    name: str
    is_base: bool
    is_main: bool
    is_bound: bool
    is_crowded: bool = False
    ratio: Ratio | None = None


@dataclass(frozen=True)
class Sides:
    """The measured cases of a suite, as its question sees them.

    Attributes:
        sides: one per work and side, in the order of the work.
        contest: that is held; None where nothing competes.
        work: columns of the work that differ.
        shared: columns of work, contest and conditions that all rows share.
        companions: conditions that differ, but only as the sides do.
        merged: conditions that differ within a side, whose rows are repetitions.
        is_first: whether the base that the question names is missing: the first side stands in.
    """

    question: Question
    sides: list[Side]
    contest: Comparison | None
    work: list[str]
    shared: list[str]
    companions: list[str]
    merged: list[str]
    is_first: bool = False

    def is_beyond_cores(self, side: Side) -> bool:
        """Return whether a side scales beyond the cores of the host, unlike others or its base."""
        if self.contest is None:
            return side.is_crowded and not self.are_all_crowded
        is_scaling = not {*RANKS}.isdisjoint(self.contest.factors)
        return bool(
            is_scaling and side.ratio and side.is_crowded and not side.ratio.base.is_crowded
        )

    @cached_property
    def are_all_crowded(self) -> bool:
        return all(side.is_crowded for side in self.sides)

    @property
    def names(self) -> list[str]:
        """The names of the sides: the base, those that compete, and bounds."""
        order = sorted(self.sides, key=lambda side: (not side.is_base, side.is_bound))
        return list(dict.fromkeys(side.name for side in order))

    @property
    def time(self) -> str:
        """The column of the time that ratios are of."""
        return time_of(self.question)

    def by_work(self) -> dict[int, list[Side]]:
        found: dict[int, list[Side]] = {}
        for side in self.sides:
            found.setdefault(side.work, []).append(side)
        return found

    def word(self, column: str, value: Any) -> str:
        return self.question.word(column, value)


def leaders(own: Sequence[Side]) -> Iterator[Side]:
    """Yield the fastest side of a work, and those that nothing tells apart from it."""
    first = fastest(own)
    yield first
    yield from (side for side in own if side is not first and not is_behind(side, first))


def fastest(sides: Iterable[Side]) -> Side:
    return min(sides, key=cost)


def cost(side: Side) -> float:
    """Return what sides are ranked by: the time per useful work, where ratios count the work."""
    return -side.ratio.value if side.ratio else -1.0


def is_behind(side: Side, first: Side) -> bool:
    """Return whether a side is slower than the first one by their ratios to the same base."""
    if side.is_base:
        return bool(first.ratio and first.ratio.is_told_apart)
    if first.is_base:
        return bool(side.ratio and side.ratio.is_told_apart)
    own, of_first = (
        each.ratio.ends if each.ratio and each.ratio.is_interval else None for each in (side, first)
    )
    return bool(own and of_first and own[1] < of_first[0])


def stars(own: Sequence[Side]) -> set[str]:
    """Return the sides that lead in a work, unless nothing tells any of them apart."""
    competing = [side for side in own if not side.is_bound and (side.ratio or side.is_base)]
    found = {side.name for side in leaders(competing)} if len(competing) > 2 else set()
    return found if len(found) < len(competing) else set()


def all_sides(table: pd.DataFrame, baseline: Baseline | None = None) -> Iterator[tuple[str, Sides]]:
    """Yield each suite of a table and what it compares.

    Raises:
        BaselineError: for a key that the table does not have or a value that it does not hold.
    """
    asked = questions()
    if baseline:
        require_held(table, baseline)
    for suite, rows in table.groupby("suite", sort=False):
        yield str(suite), sides_of(rows, asked.get(str(suite), Question()), baseline)


def require_held(table: pd.DataFrame, baseline: Baseline) -> None:
    """Raise BaselineError where no measured row has the values of a baseline."""
    measured, columns = table[table["status"] == "ok"], identity_columns(table)
    for name in baseline.values:
        if name not in columns:
            allowed = f"allowed are {', '.join(columns)}"
            raise BaselineError(f"--baseline {baseline}: no column {name}; {allowed}")
    if not marked(baseline.values, measured, pd.Series(0, measured.index)).any():
        raise BaselineError(f"--baseline {baseline}: no measured row has it")


def uncompared(table: pd.DataFrame, baseline: Baseline) -> str:
    """Say why nothing compares with a baseline; "" where something does."""
    found = list(all_sides(table, baseline))
    if any(side.ratio for _, sides in found for side in sides.sides):
        return ""
    differing = dict.fromkeys(name for _, sides in found for name in sides.work)
    what = f"differs in {', '.join(differing)}, too" if differing else "is measured"
    return f"--baseline {baseline}: nothing compares with it; every other case {what}"


def time_of(question: Question) -> str:
    column = question.metrics[0].column
    return column if column.endswith("_s") else "median_s"


def sides_of(rows: pd.DataFrame, question: Question, baseline: Baseline | None = None) -> Sides:
    """Compare the measured rows of one suite.

    Args:
        rows: of the combined table.
        baseline: what to compare with in place of the question's comparisons.
    """
    rows = rows[(rows["status"] == "ok") & ~rows["unslowed"].eq(True)]
    is_shown = ~rows["is_component"].eq(True)
    for contest in question.comparisons:
        is_shown |= marked(contest.bounds, rows, rows["status"])
    rows = rows[is_shown]
    if rows.empty:
        return Sides(question, [], None, [], [], [], [])
    if not question.scale:
        question = replace(question, scale=numbers_in(rows))
    held = contest_of(question, rows, baseline)
    by = list(held.factors) if held else []
    known = dict.fromkeys((*question.problem, "model", "world_size", *own_columns(rows)))
    work = [name for name in known if name in rows and name not in {*by, *question.replicates}]
    conditions = [name for name in ("backend", "device", *CONDITIONS) if name not in {*work, *by}]
    if rows["slowed_by"].nunique() > 1:  # rows at full speed have no mechanism
        conditions.append("slowed_by")
    shared = [name for name in (*work, *by, *conditions) if num_of(rows, name) == 1]
    merged = [name for name in question.replicates if name in rows and num_of(rows, name) > 1]
    companions: list[str] = []
    alike = () if num_of(rows, "device_name") > 1 else ("host",)
    varied = [name for name in conditions if name not in shared and name not in question.replicates]
    for name in sorted(varied, key=[*PREFERRED, *varied].index):
        if num_of(rows, *by, name) == num_of(rows, *by):
            companions.append(name)
        elif name in (*REPEATS, *alike):
            merged.append(name)
        else:
            by.append(name)
    if held is None and by:  # a condition never changes the work
        held = Comparison(tuple(by), {by[0]: FIRST})
    work = [name for name in work if name not in shared]
    by = [name for name in by if name not in shared]
    return compared(rows, question, held, work, by, shared, companions, merged, varied)


def contest_of(
    question: Question, rows: pd.DataFrame, baseline: Baseline | None
) -> Comparison | None:
    """Return the first contest with two sides in equal work."""
    if baseline:
        return Comparison(tuple(baseline.values), baseline.values)
    for contest in question.comparisons:
        by = tuple(name for name in contest.factors if name in rows)
        others = (name for each in question.comparisons for name in each.factors)
        work = [n for n in dict.fromkeys((*question.problem, *others)) if n in rows and n not in by]
        if by and num_of(rows, *work, *by) > num_of(rows, *work):
            return replace(contest, factors=by)
    return None if question.comparisons else contest_of_labels(rows)


def contest_of_labels(rows: pd.DataFrame) -> Comparison | None:
    """Return what tells cases from the baseline that their job names, of a suite that says less."""
    jobs = rows.groupby(["point_id", "started_at"], dropna=False, sort=False)
    for _, job in jobs:
        is_compared = job["paired_speedup"].notna()
        bases = job[~is_compared & job["contest"].notna()]
        if is_compared.any() and len(bases):
            base = bases.iloc[0]
            others = job[is_compared]
            by = [n for n in own_columns(rows) if (others[n].map(str) != str(base[n])).any()]
            return Comparison(tuple(by), {n: base[n] for n in by if pd.notna(base[n])})
    return None


def numbers_in(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the settings that are numbers and differ, sizes first, then the number of ranks."""
    own = sorted(own_columns(rows), key=lambda name: name != "data_size")
    names = [*own[:1], "world_size", *own[1:]]
    numbers = (name for name in names if pd.api.types.is_numeric_dtype(rows[name]))
    return tuple(name for name in numbers if num_of(rows, name) > 1)


def num_of(rows: pd.DataFrame, *columns: str) -> int:
    """Return how many different sets of values some columns hold."""
    return len(rows[list(columns)].drop_duplicates()) if columns else min(1, len(rows))


def compared(
    rows: pd.DataFrame,
    question: Question,
    contest: Comparison | None,
    work: list[str],
    by: list[str],
    shared: list[str],
    companions: list[str],
    merged: list[str],
    conditions: Sequence[str],
) -> Sides:
    """Merge the runs of each work and side, and compare each with the base most like it."""
    per_run = over_runs(rows, "suite", *work, *by, "run")
    cells = over_runs(per_run, "suite", *work, *by)
    number = cells.groupby(work, dropna=False).ngroup() if work else pd.Series(0, cells.index)
    marks = {}
    for mark in ("baseline", "focus", "bounds"):
        wanted: Cells = getattr(contest, mark) if contest else {}
        marks[mark] = marked(wanted, cells, number)
    is_first = bool(contest) and not 0 < marks["baseline"].mean() < 1
    if is_first and len(cells):
        first = cells.sort_values("started_at", kind="stable").iloc[0]
        names = by or list(contest.factors if contest else ())
        marks["baseline"] = marked(
            {n: first[n] for n in names if pd.notna(first[n])}, cells, number
        )
        marks["focus"] = marks["baseline"] & False
    times: dict[tuple[Any, ...], Times] = {}
    columns = [*work, *by]
    time = time_of(question)
    for run, job, time_s, *key in rows[["run", "path", time, *columns]].itertuples(index=False):
        of_run = times.setdefault(key_of(key), {}).setdefault(run, {})
        of_run[job] = time_s
    found = [
        Side(
            row, of, name=" ".join(filter(None, side_words(question, row, by))), is_base=is_base,
            is_main=is_main, is_bound=is_bound, is_crowded=crowded(row),
        )
        for row, of, is_base, is_main, is_bound in zip(
            cells.to_dict("records"), number, *marks.values(), strict=True
        )
    ]  # fmt: skip
    sides = Sides(question, found, contest, work, shared, companions, merged, is_first)
    settings = [*by, *(name for name in conditions if name not in by)]
    with_ratios = []
    for own in sides.by_work().values():
        bases = [side for side in own if side.is_base]
        for side in own:
            base = min(bases, key=lambda base: num_unlike(side, base, settings), default=None)
            if base is None or side.is_base or side.row["is_component"] is True:
                with_ratios.append(side)
                continue
            own_s, base_s = (
                times[key_of(each.row[name] for name in columns)] for each in (side, base)
            )
            ratio = ratio_of(side, base, own_s, base_s, time)
            with_ratios.append(replace(side, ratio=ratio))
    order = in_order(cells, work)
    with_ratios.sort(key=lambda side: order[side.work])
    return replace(sides, sides=with_ratios)


Times = dict[str, dict[str, float]]
"""Seconds by run and, within it, by job, which is the path of its record."""


def key_of(values: Iterable[Any]) -> tuple[str, ...]:
    """Return what tells equal cells from others, whichever kind of missing value they hold."""
    return tuple("" if pd.isna(value) else str(value) for value in values)


def side_words(question: Question, row: Row, by: Sequence[str]) -> list[str]:
    return [question.word(name, row[name]) for name in by if not pd.isna(row[name])]


def ranks_of(row: Row) -> int:
    """Return how many ranks work in a case."""
    own = row.get(RANKS[0])
    return int(row["world_size"] if own is None or pd.isna(own) else own)


def cores_of(row: Row) -> int:
    """Return the cores of all ranks of a job."""
    return round(float(row["cores_per_rank"] * row["world_size"]))


def crowded(row: Row) -> bool:
    """Return whether the ranks of a row, or of a case of some of them, have too few cores."""
    return bool(ranks_of(row) * row["threads_per_rank"] > row["cores_per_rank"] * row["world_size"])


def num_unlike(side: Side, base: Side, settings: Sequence[str]) -> int:
    return sum(str(side.row[name]) != str(base.row[name]) for name in settings)


def in_order(cells: pd.DataFrame, work: list[str]) -> dict[int, int]:
    """Return the place of each work in a table: by its columns, words as they were measured."""
    keys = []
    for name in work:
        numbers = pd.to_numeric(cells[name], errors="coerce")
        keys.append(numbers if numbers.notna().all() else pd.Series(pd.factorize(cells[name])[0]))
    number = cells.groupby(work, dropna=False).ngroup() if work else pd.Series(0, cells.index)
    if not keys:
        return {0: 0}
    order = np.lexsort([np.asarray(key, dtype=float) for key in reversed(keys)])
    return {of: place for place, of in enumerate(dict.fromkeys(number.iloc[order]))}


def marked(cells: Cells, rows: pd.DataFrame, work: pd.Series) -> pd.Series:
    """Return which rows have these values; as text, because a command line has texts."""
    chosen = pd.Series(bool(cells), index=rows.index)
    for name, value in cells.items():
        held = rows[name] if name in rows else pd.Series(None, index=rows.index)
        if value == LEAST:
            numbers = pd.to_numeric(held)
            chosen &= numbers.eq(numbers.groupby(work).transform("min"))
        elif value == FIRST:
            chosen &= held.eq(rows.sort_values("started_at", kind="stable")[name].iloc[0])
        else:
            chosen &= held.map(lambda cell, value=value: is_same(cell, value)).astype(bool)
    return chosen


def is_same(cell: Any, value: Any) -> bool:
    """Return whether a cell holds what the user typed; torch "2.13.0" includes 2.13.0+cpu."""
    if str(cell) == str(value) or str(cell).partition("+")[0] == str(value):
        return True
    try:
        return float(cell) == float(value)
    except (TypeError, ValueError):
        return False


def ratios_of(own_s: Times, base_s: Times) -> list[float]:
    """Return the ratio of two sides in each run that has both, of the jobs that have both, if any.

    What several jobs do to a base, such as other ranks beside it, is no part of a ratio.
    """
    found = []
    for run in own_s:
        own, base = own_s[run], base_s.get(run, {})
        if jobs := own.keys() & base.keys():
            found.append(float(np.median([base[job] / own[job] for job in jobs])))
        elif base:
            found.append(float(np.median(list(base.values())) / np.median(list(own.values()))))
    return found


def share_a_job(own_s: Times, base_s: Times) -> bool:
    return any(own_s[run].keys() & base_s.get(run, {}).keys() for run in own_s)


def ratio_of(side: Side, base: Side, own_s: Times, base_s: Times, time: str) -> Ratio | None:
    """Return how many times as fast a side is as its base.

    Args:
        own_s, base_s: times of both.
        time: the column of these.

    Returns:
        None where one of them has no such time.
    """
    row, other = side.row, base.row
    work = [each["useful_tflop_per_s"] * each["median_s"] for each in (row, other)]
    more = work[0] / work[1] if all(each > 0 for each in work) else 1.0
    of_runs = more * np.array(ratios_of(own_s, base_s))
    value = float(of_runs[0]) if len(of_runs) == 1 else more * other[time] / row[time]
    if pd.isna(value):
        return None
    if len(of_runs) > 1:
        interval = median_interval(of_runs)
        low, high = interval or (float(of_runs.min()), float(of_runs.max()))
        middle = float(np.median(of_runs))
        return Ratio(base, middle, low, high, bool(interval), f"{len(of_runs)} runs")
    # A record has pairs of a case with its own baseline, which itself has none.
    has_pairs = time == "median_s" and pd.isna(other["paired_speedup"])
    if not has_pairs or not share_a_job(own_s, base_s):
        return Ratio(base, value)
    for low, high, is_interval in (
        (row["paired_speedup_low"], row["paired_speedup_high"], True),
        (row["paired_speedup_range_low"], row["paired_speedup_range_high"], False),
    ):
        if pd.notna(low):
            basis = f"{row['num_turns']:.0f} turns"
            return Ratio(base, value, min(low, value), max(high, value), is_interval, basis)
    return Ratio(base, value)
