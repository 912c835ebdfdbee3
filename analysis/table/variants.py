"""The variants of each problem, and the speedup of each over one baseline.

A suite's question (benchkit.api.question) says which settings are the problem, and which factors
distinguish its variants. Everything else that differs between rows is a condition:

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
MEASUREMENT = ("profile", *(key.name for key in fields(MeasureConfig)))
"""Conditions of timing; variants are never compared by them."""
MODE = "mode"
"""Timing mode. Rows of different modes are never compared."""
RANKS = ("ranks", "world_size")
"""Columns with the number of ranks of a case, and of its job."""


class BaselineError(ConfigError):
    """The baseline names a column or a value that the table does not have."""


@dataclass(frozen=True)
class Baseline:
    """A user's baseline, in place of those of the suites: {"world_size": "2"}."""

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
        comparison: None where nothing is compared.
        problem_columns: columns of the problem that vary.
        shared: columns of problem, factors and conditions that all rows share.
        confounded: conditions that vary within a problem, but only with the factors.
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
        reference = variant.speedup.reference if variant.speedup else None
        return bool(
            self.is_scaling
            and reference
            and variant.is_oversubscribed
            and not reference.is_oversubscribed
        )

    @property
    def scale(self) -> list[str]:
        """Columns of the question's scale along which the problem varies."""
        return [name for name in self.question.scaling_columns if name in self.problem_columns]

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
        order = sorted(
            self.variants, key=lambda variant: (not variant.is_baseline, variant.is_bound)
        )
        return list(dict.fromkeys(variant.name for variant in order))

    @cached_property
    def baselines(self) -> list[str]:
        """The names of the baselines: one, where all problems have the same."""
        return list(dict.fromkeys(variant.name for variant in self.variants if variant.is_baseline))

    @property
    def time_column(self) -> str:
        """The column of times that speedups are computed from."""
        return time_column(self.question)

    @cached_property
    def by_problem(self) -> dict[int, list[Variant]]:
        by_number: dict[int, list[Variant]] = {}
        for variant in self.variants:
            by_number.setdefault(variant.problem_number, []).append(variant)
        return by_number

    @cached_property
    def standings(self) -> dict[int, Standing]:
        """The standing of each problem; none of a curve, whose variants do not compete."""
        if self.is_curve:
            return {}
        of_problems = (
            (number, judge_fastest(variants)) for number, variants in self.by_problem.items()
        )
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
    """Compare the variants of each suite of a table.

    Raises:
        BaselineError: for a key that the table does not have or a value that it does not hold.
    """
    questions_by_suite = questions()
    if baseline:
        require_baseline_rows(table, baseline)
    return {
        str(suite): compare_suite(rows, questions_by_suite.get(str(suite), Question()), baseline)
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
    """Return why no variant is compared with a baseline; "" where one is."""
    suites = compare_suites(table, baseline).values()
    if any(variant.speedup for results in suites for variant in results.variants):
        return ""
    differing = dict.fromkeys(name for results in suites for name in results.problem_columns)
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
    for cells in (
        *(comparison.bounds for comparison in question.comparisons),
        baseline and baseline.values,
    ):
        is_shown |= match_cells(cells or {}, rows, rows["status"])
    rows = rows[is_shown]
    if rows.empty:
        return SuiteResults(question)
    if not question.scaling_columns:
        question = replace(question, scaling_columns=numeric_settings(rows))
    comparison = choose_comparison(question, rows, baseline)
    factors = list(comparison.factors) if comparison else []
    candidates = dict.fromkeys(
        (*question.problem, "model", "world_size", *suite_columns(rows), MODE)
    )
    problem = [n for n in candidates if n in rows and n not in (*factors, *question.replicates)]
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
    confounded: list[str] = []
    pooled = [n for n in question.replicates if n in rows and count_distinct(rows, n) > 1]
    for name in varied:
        determining = [*factors, *(column for column in problem if column in varied)]
        if name in factors:
            continue
        if count_distinct(rows, *determining, name) == count_distinct(rows, *determining):
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
    if rows["host"].str.endswith(ALIKE).any():  # see `analysis.table.combine.merge_equal_hosts`
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
    """Return the comparison by the user's baseline or the suite's question; None without any.

    If the keys of the baseline are factors of a comparison of the suite, it replaces the baseline
    of that one.
    """
    if baseline:
        for comparison in question.comparisons:
            if {*baseline.values} <= {*comparison.factors}:
                factors = tuple(name for name in comparison.factors if name in rows)
                return replace(comparison, factors=factors, baseline=baseline.values, focus={})
        return Comparison(tuple(baseline.values), baseline.values)
    for comparison in question.comparisons:
        factors = tuple(name for name in comparison.factors if name in rows)
        other_factors = (name for other in question.comparisons for name in other.factors)
        candidates = dict.fromkeys((*question.problem, *other_factors, MODE))
        problem = [name for name in candidates if name in rows and name not in factors]
        if factors and count_distinct(rows, *problem, *factors) > count_distinct(rows, *problem):
            return replace(comparison, factors=factors)
    return None if question.comparisons else comparison_of_labels(rows)


def comparison_of_labels(rows: pd.DataFrame) -> Comparison | None:
    """Take as factors the labels in which cases differ from the baseline of their job.

    This is the fallback for suites without comparisons.
    """
    if rows["paired_speedup"].isna().all():
        return None
    jobs = rows.groupby(["point_id", "started_at"], dropna=False, sort=False)
    for _, job in jobs:
        is_compared = job["paired_speedup"].notna()
        baselines = job[~is_compared & job["contest"].notna()]
        if is_compared.any() and len(baselines):
            baseline = baselines.iloc[0]
            compared = job[is_compared]
            factors = [
                n for n in suite_columns(rows) if (compared[n].map(str) != str(baseline[n])).any()
            ]
            cells = {name: baseline[name] for name in factors if pd.notna(baseline[name])}
            return Comparison(tuple(factors), cells)
    return None


def comparison_of_conditions(
    rows: pd.DataFrame, problem: Sequence[str], varied: Sequence[str], replicates: Sequence[str]
) -> Comparison | None:
    """Compare by the first condition that varies within a problem: commit, host, backend, …

    This is the fallback for suites that compare nothing.
    """
    for name in varied:
        is_comparable = name not in (*replicates, *MEASUREMENT)
        if is_comparable and count_distinct(rows, *problem, name) > count_distinct(rows, *problem):
            return Comparison((name,), {name: FIRST})
    return None


def numeric_settings(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the settings that are numbers and vary, sizes first, then the number of ranks."""
    suite_settings = sorted(suite_columns(rows), key=lambda name: name != "data_size")
    names = [*suite_settings[:1], "world_size", *suite_settings[1:]]
    numbers = (name for name in names if pd.api.types.is_numeric_dtype(rows[name]))
    return tuple(name for name in numbers if count_distinct(rows, name) > 1)


def count_distinct(rows: pd.DataFrame, *columns: str) -> int:
    """Return the number of distinct rows of some columns."""
    return len(rows[list(columns)].drop_duplicates()) if columns else min(1, len(rows))


def build_variants(
    suite_results: SuiteResults,
    rows: pd.DataFrame,
    factors: Sequence[str],
    baseline: Baseline | None,
) -> SuiteResults:
    """Pool the runs of each variant, and compare it with the baseline of its problem."""
    comparison, problem = suite_results.comparison, suite_results.problem_columns
    columns = [*problem, *factors]
    cells = aggregate_runs(aggregate_runs(rows, "suite", *columns, "run"), "suite", *columns)
    problem_codes = (
        cells.groupby(problem, dropna=False).ngroup() if problem else cells["num_runs"] * 0
    )
    comparison_or_empty = comparison or Comparison((), {})
    is_baseline, is_focus, is_bound = (
        match_cells(values, cells, problem_codes)
        for values in (
            comparison_or_empty.baseline,
            comparison_or_empty.focus,
            comparison_or_empty.bounds,
        )
    )
    is_stand_in = bool(comparison) and not is_baseline.any()
    if is_stand_in:
        first = cells.sort_values("started_at", kind="stable").iloc[0]
        is_baseline = match_cells(
            {n: first[n] for n in factors if pd.notna(first[n])}, cells, problem_codes
        )
        is_focus = is_focus & False
    preferred = is_focus
    if baseline:
        for usual in suite_results.question.comparisons:
            preferred = preferred | match_cells(usual.baseline, cells, problem_codes)
    ranked = cells.assign(of=problem_codes, other=~preferred)[is_baseline]
    ranked = ranked.sort_values(["other", "started_at"], kind="stable")
    baseline_rows = {*ranked.index[~ranked["of"].duplicated()]}
    jobs = jobs_of(rows, columns, suite_results.time_column)
    variants = [
        Variant(
            row, code, name=" ".join(variant_words(suite_results.question, row, factors)),
            is_baseline=index in baseline_rows, is_focus=focus, is_bound=bound,
            is_oversubscribed=is_oversubscribed(row),
            times_by_run=jobs[key_of(row[n] for n in columns)],
        )
        for index, row, code, focus, bound in zip(
            cells.index, cells.to_dict("records"), problem_codes, is_focus, is_bound, strict=True
        )
    ]  # fmt: skip
    order = problem_positions(cells, problem, problem_codes)
    variants.sort(key=lambda variant: order[variant.problem_number])
    suite_results = replace(suite_results, variants=variants, is_stand_in=is_stand_in)
    with_speedups = (add_speedups(group) for group in suite_results.by_problem.values())
    return replace(
        suite_results, variants=[variant for group in with_speedups for variant in group]
    )


def jobs_of(
    rows: pd.DataFrame, columns: Sequence[str], time: str
) -> dict[tuple[str, ...], dict[str, dict[str, CaseTimes]]]:
    """Return the times of each variant by its cells. Only medians of all calls have rounds."""
    times: dict[tuple[str, ...], dict[str, dict[str, CaseTimes]]] = {}
    rounds_of = {} if ROUNDS in rows else {ROUNDS: b""}  # a loaded table has none
    cells = rows.assign(**rounds_of)[["run", "path", time, ROUNDS, *columns]]
    for run, job, seconds, rounds, *key in cells.itertuples(index=False, name=None):
        medians = np.frombuffer(rounds if time == "median_s" else b"")
        times_of_run = times.setdefault(key_of(key), {}).setdefault(str(run), {})
        times_of_run[job] = CaseTimes(float(seconds), medians)
    return times


def key_of(values: Iterable[Any]) -> tuple[str, ...]:
    """Return a hashable key of some cells; None, NaN and NA compare equal."""
    return tuple("" if pd.isna(value) else str(value) for value in values)


def variant_words(question: Question, row: Row, factors: Sequence[str]) -> Iterator[str]:
    yield from filter(
        None, (question.format_value(name, row[name]) for name in factors if not pd.isna(row[name]))
    )


def num_case_ranks(row: Row) -> int:
    """Return the number of ranks of a case."""
    ranks = row.get(RANKS[0])
    return int(row["world_size"] if ranks is None or pd.isna(ranks) else ranks)


def num_job_cores(row: Row) -> int:
    """Return the number of cores of a job."""
    return round(float(row["cores_per_rank"] * row["world_size"]))


def is_oversubscribed(row: Row) -> bool:
    """Return whether the ranks of a case have more threads than their job has cores."""
    return bool(
        num_case_ranks(row) * row["threads_per_rank"] > row["cores_per_rank"] * row["world_size"]
    )


def problem_positions(
    cells: pd.DataFrame, problem: Sequence[str], problem_codes: pd.Series
) -> dict[int, int]:
    """Return the sort position of each problem; texts sort by first appearance."""
    keys = []
    for name in problem:
        numbers = pd.to_numeric(cells[name], errors="coerce")
        keys.append(numbers if numbers.notna().all() else pd.Series(pd.factorize(cells[name])[0]))
    if not keys:
        return {0: 0}
    order = np.lexsort([np.asarray(key, dtype=float) for key in reversed(keys)])
    return {
        code: position for position, code in enumerate(dict.fromkeys(problem_codes.iloc[order]))
    }


def match_cells(cells: Cells, rows: pd.DataFrame, problem: pd.Series) -> pd.Series:
    """Return a mask of the rows with these values, compared as text as on a command line."""
    mask = pd.Series(bool(cells), index=rows.index)
    for name, value in cells.items():
        column_values = rows[name] if name in rows else pd.Series(None, index=rows.index)
        if value == LEAST:
            numbers = pd.to_numeric(column_values)
            mask &= numbers.eq(numbers.groupby(problem).transform("min"))
        elif value == FIRST:
            mask &= column_values.eq(rows.sort_values("started_at", kind="stable")[name].iloc[0])
        else:
            mask &= column_values.map(lambda cell, value=value: is_same(cell, value)).astype(bool)
    return mask


def is_same(cell: Any, value: Any) -> bool:
    """Return whether a cell has a value that may be typed; torch "2.13.0" includes 2.13.0+cpu."""
    if str(cell) == str(value) or str(cell).partition("+")[0] == str(value):
        return True
    try:
        return float(cell) == float(value)
    except (TypeError, ValueError):
        return False
