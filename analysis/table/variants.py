"""The variants of each problem, and the speedup of each over one baseline.

A suite's question (benchkit.api.question) says which settings are the problem, and which factors
tell its variants apart. Everything else that differs between rows is a condition:

- a condition that varies only with the factors is confounded with them;
- seeds, kernels and hosts of one kind are replicates, whose rows are pooled;
- any other condition belongs to the problem, so that variants share it.

A problem has one baseline, and each other variant a speedup over it (analysis/table/speedup.py).
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.records.results import Row
from analysis.shared.discover import questions
from analysis.table.combine import (
    ALIKE,
    CONDITIONS,
    ROUNDS,
    cache_latest,
    identity_columns,
    suite_columns,
)
from analysis.table.repetitions import aggregate_runs
from analysis.table.speedup import CaseTimes, Standing, Variant, add_speedups, judge_fastest
from benchkit.api.keys import MeasureConfig
from benchkit.api.question import FIRST, LEAST, Cells, Comparison, Question
from benchkit.errors import ConfigError

REPLICATES = ("seed", "kernel")
"""Conditions in which replicates may differ."""
PREFERRED = ("backend", "device", "host", "device_name", "commit", "torch")
"""Of conditions that vary together the first of these is named."""
MEASUREMENT = ("profile", *(each.name for each in fields(MeasureConfig)))
"""Conditions that say how a case was timed: nobody asks which of them is faster."""
MODE = "mode"
"""Of the measurement: a first call and a loop of many are never compared."""
RANKS = ("ranks", "world_size")
"""Columns with the number of ranks that work."""


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
class SuiteResults:
    """The measured cases of a suite, as its question sees them.

    Attributes:
        variants: in the order of their problems.
        comparison: that is made; None where nothing is compared.
        problem_columns: columns of the problem that differ.
        shared: columns of problem, factors and conditions that all rows share.
        confounded: conditions that differ within a problem, but only as the factors do.
        pooled: values of the conditions that differ within a variant, whose rows are replicates.
        is_stand_in: whether the baseline that the question names is missing: the variant that was
            measured first stands in.
    """

    question: Question
    variants: list[Variant] = field(default_factory=list)
    comparison: Comparison | None = None
    problem_columns: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    confounded: list[str] = field(default_factory=list)
    pooled: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_stand_in: bool = False

    def is_beyond_cores(self, variant: Variant) -> bool:
        """Return whether a variant is oversubscribed, unlike others or its baseline."""
        if self.comparison is None:
            return variant.is_oversubscribed and not self.are_all_oversubscribed
        over = variant.speedup.reference if variant.speedup else None
        return bool(
            self.is_scaling and over and variant.is_oversubscribed and not over.is_oversubscribed
        )

    @property
    def is_scaling(self) -> bool:
        """Whether more ranks are compared with fewer."""
        return bool(self.comparison and not {*RANKS}.isdisjoint(self.comparison.factors))

    @property
    def is_curve(self) -> bool:
        return bool(self.comparison and self.comparison.is_curve)

    @cached_property
    def are_all_oversubscribed(self) -> bool:
        return all(variant.is_oversubscribed for variant in self.variants)

    @cached_property
    def names(self) -> list[str]:
        """The names of the variants: the baseline, those that compete, and bounds."""
        order = sorted(self.variants, key=lambda each: (not each.is_baseline, each.is_bound))
        return list(dict.fromkeys(each.name for each in order))

    @cached_property
    def baselines(self) -> list[str]:
        """The names of the baselines: one, where all problems have the same."""
        return list(dict.fromkeys(each.name for each in self.variants if each.is_baseline))

    @property
    def time_column(self) -> str:
        """The column of the time that speedups are of."""
        return time_column(self.question)

    @cached_property
    def by_problem(self) -> dict[int, list[Variant]]:
        found: dict[int, list[Variant]] = {}
        for variant in self.variants:
            found.setdefault(variant.problem_number, []).append(variant)
        return found

    @cached_property
    def standings(self) -> dict[int, Standing]:
        """The standing of each problem; none of a curve, of which no variant can be chosen."""
        if self.is_curve:
            return {}
        of_problems = ((number, judge_fastest(own)) for number, own in self.by_problem.items())
        return {number: standing for number, standing in of_problems if standing}

    def leaders(self, problem: int) -> set[str]:
        standing = self.standings.get(problem)
        return standing.leaders if standing else set()

    def format_value(self, column: str, value: Any) -> str:
        return self.question.format_value(column, value)


@cache_latest
def compare_suites(
    table: pd.DataFrame, baseline: Baseline | None = None
) -> dict[str, SuiteResults]:
    """Return the variants of a table by suite.

    Raises:
        BaselineError: for a key that the table does not have or a value that it does not hold.
    """
    asked = questions()
    if baseline:
        require_baseline_rows(table, baseline)
    return {
        str(suite): compare_suite(rows, asked.get(str(suite), Question()), baseline)
        for suite, rows in table.groupby("suite", sort=False)
    }


def require_baseline_rows(table: pd.DataFrame, baseline: Baseline) -> None:
    """Raise BaselineError where no measured row has the values of a baseline."""
    measured, columns = table[table["status"] == "ok"], identity_columns(table)
    for name in baseline.values:
        if name not in columns:
            allowed = f"allowed are {', '.join(columns)}"
            raise BaselineError(f"--baseline {baseline}: no column {name}; {allowed}")
    if not match_cells(baseline.values, measured, pd.Series(0, measured.index)).any():
        raise BaselineError(f"--baseline {baseline}: no measured row has it")


def explain_no_comparison(table: pd.DataFrame, baseline: Baseline) -> str:
    """Say why nothing compares with a baseline; "" where something does."""
    found = compare_suites(table, baseline).values()
    if any(variant.speedup for each in found for variant in each.variants):
        return ""
    differing = dict.fromkeys(name for each in found for name in each.problem_columns)
    what = f"differs in {', '.join(differing)}, too" if differing else "is measured"
    return f"--baseline {baseline}: nothing compares with it; every other case {what}"


def time_column(question: Question) -> str:
    column = question.metrics[0].column
    return column if column.endswith("_s") else "median_s"


def compare_suite(
    rows: pd.DataFrame, question: Question, baseline: Baseline | None = None
) -> SuiteResults:
    """Compare the measured rows of one suite.

    Args:
        rows: of the combined table.
        baseline: what to compare with in place of the question's baselines.
    """
    rows = rows[(rows["status"] == "ok") & ~rows["unslowed"].eq(True)]
    is_shown = ~rows["is_component"].eq(True)
    for cells in (*(each.bounds for each in question.comparisons), baseline and baseline.values):
        is_shown |= match_cells(cells or {}, rows, rows["status"])
    rows = rows[is_shown]
    if rows.empty:
        return SuiteResults(question)
    if not question.scaling_columns:
        question = replace(question, scaling_columns=numeric_settings(rows))
    comparison = choose_comparison(question, rows, baseline)
    factors = list(comparison.factors) if comparison else []
    known = dict.fromkeys((*question.problem, "model", "world_size", *suite_columns(rows), MODE))
    problem = [n for n in known if n in rows and n not in (*factors, *question.replicates)]
    conditions = ["backend", "device", *CONDITIONS]
    if rows["slowed_by"].nunique() > 1:  # rows at full speed have no mechanism
        conditions.append("slowed_by")
    conditions = [name for name in conditions if name not in (*problem, *factors)]
    replicates = (*question.replicates, *REPLICATES, *hosts_of_one_kind(rows))
    varied = [n for n in conditions if count_distinct(rows, n) > 1 and n not in question.replicates]
    varied.sort(key=[*PREFERRED, *varied].index)
    if comparison is None:
        comparison = comparison_of_conditions(rows, problem, varied, replicates)
        factors = list(comparison.factors) if comparison else []
    confounded, pooled = (
        [],
        [n for n in question.replicates if n in rows and count_distinct(rows, n) > 1],
    )
    for name in varied:
        apart = [*factors, *(each for each in problem if each in varied)]
        if name in factors:
            continue
        if count_distinct(rows, *apart, name) == count_distinct(rows, *apart):
            confounded.append(name)
        elif name in replicates:
            pooled.append(name)
        else:
            problem.append(name)
    within = count_distinct(rows, *problem)
    confounded = [name for name in confounded if count_distinct(rows, *problem, name) > within]
    shared = [n for n in (*problem, *factors, *conditions) if count_distinct(rows, n) == 1]
    problem = [name for name in problem if name not in shared]
    values = {name: sorted({*map(str, rows[name])}) for name in pooled}
    if rows["host"].str.endswith(ALIKE).any():  # see `analysis.table.combine.with_machines`
        values["host"] = sorted({*map(str, rows["node"])})
    of_suite = SuiteResults(question, [], comparison, problem, shared, confounded, values)
    return build_variants(
        of_suite, rows, [name for name in factors if name not in shared], baseline
    )


def hosts_of_one_kind(rows: pd.DataFrame) -> tuple[str, ...]:
    return () if count_distinct(rows, "device_name") > 1 else ("host",)


def choose_comparison(
    question: Question, rows: pd.DataFrame, baseline: Baseline | None
) -> Comparison | None:
    """Return the comparison that the user or the suite asks for; None without any.

    A baseline of factors of one comparison of the suite takes the place of that one's baseline.
    """
    if baseline:
        for comparison in question.comparisons:
            if {*baseline.values} <= {*comparison.factors}:
                factors = tuple(name for name in comparison.factors if name in rows)
                return replace(comparison, factors=factors, baseline=baseline.values, focus={})
        return Comparison(tuple(baseline.values), baseline.values)
    for comparison in question.comparisons:
        factors = tuple(name for name in comparison.factors if name in rows)
        others = (name for each in question.comparisons for name in each.factors)
        named = dict.fromkeys((*question.problem, *others, MODE))
        problem = [name for name in named if name in rows and name not in factors]
        if factors and count_distinct(rows, *problem, *factors) > count_distinct(rows, *problem):
            return replace(comparison, factors=factors)
    return None if question.comparisons else comparison_of_labels(rows)


def comparison_of_labels(rows: pd.DataFrame) -> Comparison | None:
    """Return what tells cases from the baseline that their job names, of a suite that says less."""
    if rows["paired_speedup"].isna().all():
        return None
    jobs = rows.groupby(["point_id", "started_at"], dropna=False, sort=False)
    for _, job in jobs:
        is_compared = job["paired_speedup"].notna()
        bases = job[~is_compared & job["contest"].notna()]
        if is_compared.any() and len(bases):
            base = bases.iloc[0]
            others = job[is_compared]
            factors = [n for n in suite_columns(rows) if (others[n].map(str) != str(base[n])).any()]
            cells = {name: base[name] for name in factors if pd.notna(base[name])}
            return Comparison(tuple(factors), cells)
    return None


def comparison_of_conditions(
    rows: pd.DataFrame, problem: Sequence[str], varied: Sequence[str], replicates: Sequence[str]
) -> Comparison | None:
    """Return the comparison of two commits, hosts or backends, of a suite that compares nothing."""
    for name in varied:
        is_asked = name not in (*replicates, *MEASUREMENT)
        if is_asked and count_distinct(rows, *problem, name) > count_distinct(rows, *problem):
            return Comparison((name,), {name: FIRST})
    return None


def numeric_settings(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the settings that are numbers and differ, sizes first, then the number of ranks."""
    own = sorted(suite_columns(rows), key=lambda name: name != "data_size")
    names = [*own[:1], "world_size", *own[1:]]
    numbers = (name for name in names if pd.api.types.is_numeric_dtype(rows[name]))
    return tuple(name for name in numbers if count_distinct(rows, name) > 1)


def count_distinct(rows: pd.DataFrame, *columns: str) -> int:
    """Return how many different sets of values some columns hold."""
    return len(rows[list(columns)].drop_duplicates()) if columns else min(1, len(rows))


def build_variants(
    suite_results: SuiteResults,
    rows: pd.DataFrame,
    factors: Sequence[str],
    baseline: Baseline | None,
) -> SuiteResults:
    """Pool the runs of each variant, and compare it with the baseline of its problem."""
    asked, problem = suite_results.comparison, suite_results.problem_columns
    columns = [*problem, *factors]
    cells = aggregate_runs(aggregate_runs(rows, "suite", *columns, "run"), "suite", *columns)
    problem_codes = (
        cells.groupby(problem, dropna=False).ngroup() if problem else cells["num_runs"] * 0
    )
    wanted = asked or Comparison((), {})
    is_baseline, is_focus, is_bound = (
        match_cells(values, cells, problem_codes)
        for values in (wanted.baseline, wanted.focus, wanted.bounds)
    )
    is_stand_in = bool(asked) and not is_baseline.any()
    if is_stand_in:
        first = cells.sort_values("started_at", kind="stable").iloc[0]
        is_baseline = match_cells(
            {n: first[n] for n in factors if pd.notna(first[n])}, cells, problem_codes
        )
        is_focus = is_focus & False
    preferred = is_focus
    if baseline:
        for comparison in suite_results.question.comparisons:
            preferred = preferred | match_cells(comparison.baseline, cells, problem_codes)
    ranked = cells.assign(of=problem_codes, other=~preferred)[is_baseline]
    ranked = ranked.sort_values(["other", "started_at"], kind="stable")
    chosen = {*ranked.index[~ranked["of"].duplicated()]}
    jobs = jobs_of(rows, columns, suite_results.time_column)
    variants = [
        Variant(
            row, of, name=" ".join(variant_words(suite_results.question, row, factors)),
            is_baseline=index in chosen, is_focus=focus, is_bound=bound,
            is_oversubscribed=is_oversubscribed(row),
            times_by_run=jobs[key_of(row[n] for n in columns)],
        )
        for index, row, of, focus, bound in zip(
            cells.index, cells.to_dict("records"), problem_codes, is_focus, is_bound, strict=True
        )
    ]  # fmt: skip
    order = problem_positions(cells, problem, problem_codes)
    variants.sort(key=lambda variant: order[variant.problem_number])
    suite_results = replace(suite_results, variants=variants, is_stand_in=is_stand_in)
    with_speedups = (add_speedups(own) for own in suite_results.by_problem.values())
    return replace(suite_results, variants=[variant for own in with_speedups for variant in own])


def jobs_of(
    rows: pd.DataFrame, columns: Sequence[str], time: str
) -> dict[tuple[str, ...], dict[str, dict[str, CaseTimes]]]:
    """Return the times of each variant by its cells. Only medians of all calls have rounds."""
    found: dict[tuple[str, ...], dict[str, dict[str, CaseTimes]]] = {}
    rounds_of = {} if ROUNDS in rows else {ROUNDS: b""}  # a loaded table has none
    of_rows = rows.assign(**rounds_of)[["run", "path", time, ROUNDS, *columns]]
    for run, job, seconds, rounds, *key in of_rows.itertuples(index=False, name=None):
        medians = np.frombuffer(rounds if time == "median_s" else b"")
        of_run = found.setdefault(key_of(key), {}).setdefault(str(run), {})
        of_run[job] = CaseTimes(float(seconds), medians)
    return found


def key_of(values: Iterable[Any]) -> tuple[str, ...]:
    """Return what tells equal cells from others, whichever kind of missing value they hold."""
    return tuple("" if pd.isna(value) else str(value) for value in values)


def variant_words(question: Question, row: Row, factors: Sequence[str]) -> Iterator[str]:
    yield from filter(
        None, (question.format_value(name, row[name]) for name in factors if not pd.isna(row[name]))
    )


def num_case_ranks(row: Row) -> int:
    """Return how many ranks work in a case."""
    own = row.get(RANKS[0])
    return int(row["world_size"] if own is None or pd.isna(own) else own)


def num_job_cores(row: Row) -> int:
    """Return the cores of all ranks of a job."""
    return round(float(row["cores_per_rank"] * row["world_size"]))


def is_oversubscribed(row: Row) -> bool:
    """Return whether the ranks of a row, or of a case of some of them, have too few cores."""
    return bool(
        num_case_ranks(row) * row["threads_per_rank"] > row["cores_per_rank"] * row["world_size"]
    )


def problem_positions(
    cells: pd.DataFrame, problem: Sequence[str], number: pd.Series
) -> dict[int, int]:
    """Return the place of each problem in a table: by its columns, words as they were measured."""
    keys = []
    for name in problem:
        numbers = pd.to_numeric(cells[name], errors="coerce")
        keys.append(numbers if numbers.notna().all() else pd.Series(pd.factorize(cells[name])[0]))
    if not keys:
        return {0: 0}
    order = np.lexsort([np.asarray(key, dtype=float) for key in reversed(keys)])
    return {of: place for place, of in enumerate(dict.fromkeys(number.iloc[order]))}


def match_cells(cells: Cells, rows: pd.DataFrame, problem: pd.Series) -> pd.Series:
    """Return which rows have these values; as text, because a command line has texts."""
    chosen = pd.Series(bool(cells), index=rows.index)
    for name, value in cells.items():
        column_values = rows[name] if name in rows else pd.Series(None, index=rows.index)
        if value == LEAST:
            numbers = pd.to_numeric(column_values)
            chosen &= numbers.eq(numbers.groupby(problem).transform("min"))
        elif value == FIRST:
            chosen &= column_values.eq(rows.sort_values("started_at", kind="stable")[name].iloc[0])
        else:
            chosen &= column_values.map(lambda cell, value=value: is_same(cell, value)).astype(bool)
    return chosen


def is_same(cell: Any, value: Any) -> bool:
    """Return whether a cell holds what the user typed; torch "2.13.0" includes 2.13.0+cpu."""
    if str(cell) == str(value) or str(cell).partition("+")[0] == str(value):
        return True
    try:
        return float(cell) == float(value)
    except (TypeError, ValueError):
        return False
