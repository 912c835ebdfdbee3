"""Reads the calls of compile, and compares each compiler with eager code of the same settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.groups import alike
from analysis.records.of_suite import cases_of
from analysis.suites.compile.break_even import BreakEven, break_even
from benchkit.record.case import CaseRecord
from benchkit.record.settings import FIRST_CALLS
from benchkit.statistics.intervals import Array
from benchkit.statistics.quantiles import median, medians
from benchkit.statistics.summary import iteration_times
from benchkit.suites.compile.names import (
    BATCH_SIZES,
    CACHE,
    CALLS_PER_SIZE,
    COMPILE_S,
    COMPILER,
    DYNAMIC,
    EAGER,
    RECOMPILE_S,
)

SUITE = "compile"
VARIANT = (COMPILER, CACHE, DYNAMIC)
"""What differs between a case and its baseline."""


@dataclass(frozen=True)
class Curve:
    """The calls of one compiler, from the first one of fresh ranks on.

    Attributes:
        name: the compiler, with its cache and its handling of sizes where these differ.
        row: of the combined table, of the latest run; the seconds of compilation are medians over
            the runs.
        runs: seconds of each call of each run: [run][call].
        size_begins: index of the first call with the last size that was reached.
        short_of: that size, where measuring ended before the last one; else "".
    """

    name: str
    row: dict[str, Any]
    runs: Array
    size_begins: int
    short_of: str

    @property
    def times(self) -> Array:
        """Seconds of each call, the median over runs: [call]."""
        return medians(self.runs.T)

    @property
    def is_eager(self) -> bool:
        return bool(self.row[COMPILER] == EAGER)

    @property
    def steady(self) -> Array:
        """The later half of the calls with the last size that was reached."""
        return self.later_half(self.times)

    @property
    def steady_s(self) -> float:
        """Their median, in seconds."""
        return float(median(self.steady))

    def against(self, baseline: "Curve") -> BreakEven:
        """Return from which call on this curve is below another one."""
        return self._break_even(self.times, baseline)

    def runs_against(self, baseline: "Curve") -> list[BreakEven]:
        """Return the same of each run by itself: [run]."""
        return [self._break_even(times, baseline) for times in self.runs]

    def _break_even(self, times: Array, baseline: "Curve") -> BreakEven:
        return break_even(times, baseline.times, self.later_half(times), baseline.steady)

    def later_half(self, times: Array) -> Array:
        """Return the later half of the calls with the last size that was reached."""
        own = times[self.size_begins :]
        return own[len(own) // 2 :]


@dataclass(frozen=True)
class Group:
    """Compilers with the same workload, on the same machine.

    Attributes:
        suffix: what sets the group apart, for names of files; "" for a single group.
        curves: of those that were measured, in the order of their first points.
        failed: rows of those that were not.
        title: what they compute.
    """

    suffix: str
    curves: list[Curve]
    failed: list[dict[str, Any]]
    title: str

    @property
    def baseline(self) -> Curve | None:
        """The eager code; None where it was not measured."""
        return next((curve for curve in self.curves if curve.is_eager), None)


def groups(table: pd.DataFrame) -> list[Group]:
    """Return the groups of a combined table that have a curve."""
    rows = table[table["suite"] == SUITE]
    if rows.empty or not {*VARIANT, BATCH_SIZES} <= set(rows):
        return []
    if rows[BATCH_SIZES].nunique() == 1:  # A point that could not run has no cases, nor labels.
        rows = rows.assign(**{BATCH_SIZES: rows[BATCH_SIZES].dropna().iloc[0]})
    found = [group_of(suffix, group) for suffix, group in alike(rows, *VARIANT)]
    return [group for group in found if group.curves]


def group_of(suffix: str, rows: pd.DataFrame) -> Group:
    """Return the curves of comparable rows; eager code has no cache and no symbols for sizes."""
    is_eager = rows[COMPILER] == EAGER
    compiled = rows[~is_eager]
    told = [name for name in (CACHE, DYNAMIC) if compiled[name].nunique() > 1]
    names = rows[COMPILER].astype(str)
    for name in told:
        names = names.where(is_eager, names + f", {name}=" + rows[name].astype(str).str.lower())
    rows = rows.assign(variant=names)
    measured, order = rows[rows["status"] == "ok"], list(dict.fromkeys(names))
    by_name = measured.groupby("variant", sort=False)
    found = (curve_of(str(name), group) for name, group in by_name)
    curves = [curve for curve in found if curve is not None]
    curves.sort(key=lambda curve: order.index(curve.name))
    done = [curve.name for curve in curves]
    failed = rows[(rows["status"] != "ok") & ~rows["variant"].isin(done)]
    failed = failed.drop_duplicates("variant", keep="last")
    title = rows["title"].iloc[0].partition(" by ")[0]
    return Group(suffix, curves, failed.to_dict("records"), title)


def curve_of(name: str, rows: pd.DataFrame) -> Curve | None:
    """Return the curve of all runs of one variant; None where others came before its calls."""
    cold = rows[rows["mode"] == FIRST_CALLS]
    runs = [(row, times_of(case), case) for row, case in cases_of(cold) if not case.warmup_s]
    if not runs:
        return None
    number = min(len(times) for _, times, _ in runs)
    of_runs = np.array([times[:number] for _, times, _ in runs])
    row, _, case = runs[-1]
    for detail in (COMPILE_S, RECOMPILE_S):
        if detail in case.details:
            row[detail] = median([each.details[detail] for _, _, each in runs])
    sizes, calls = str(row[BATCH_SIZES]).split(","), int(case.details[CALLS_PER_SIZE])
    last = min(len(sizes) - 1, (number - 1) // calls)
    short_of = sizes[last] if last < len(sizes) - 1 else ""
    return Curve(name, row, of_runs, last * calls, short_of)


def times_of(case: CaseRecord) -> Array:
    """Return the seconds of each call on the slowest rank: [call]."""
    return iteration_times(case.samples_taking_part, case.starts_taking_part, case.estimator)


def comparisons(group: Group) -> Iterator[tuple[Curve, BreakEven | None]]:
    """Yield each curve with its break-even against eager.

    It is None for eager, without eager, and where both ended at different sizes.
    """
    baseline = group.baseline
    for curve in group.curves:
        if baseline is None or curve.is_eager or curve.short_of != baseline.short_of:
            yield curve, None
        else:
            yield curve, curve.against(baseline)
