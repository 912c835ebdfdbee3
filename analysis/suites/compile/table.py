"""When compiling pays: first step, compile time, steady state, break-even call."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.records.results import Row
from analysis.records.suite_rows import rows_with_cases
from analysis.report.chart import LINES, LOG, SECONDS, Axis, Chart, Charts, chart_points
from analysis.report.markdown import document
from analysis.shared.text import as_csv, shorten_reason
from analysis.shared.text_table import as_markdown
from analysis.table.combine import identity_columns
from analysis.table.repetitions import group_equal_except
from analysis.table.variants import Baseline
from benchkit.record.record import FIRST_CALLS
from benchkit.statistics.intervals import Array, median, medians, quantile
from benchkit.suites.compile.suite import (
    BATCH_SIZES,
    CACHE,
    CACHE_HITS,
    CACHE_MISSES,
    CALLS_PER_SIZE,
    COMPILE_S,
    COMPILED_AT,
    COMPILER,
    DYNAMIC,
    EAGER,
    GRAPH_BREAKS,
    GRAPHS,
    RECOMPILATIONS,
    RECOMPILE_S,
)

SUITE = "compile"
WITHIN, ESTIMATED, NEVER, UNCLEAR = "within", "estimated", "never", "unclear"
VARIANT = (COMPILER, CACHE, DYNAMIC)  # labels in which a case differs from its baseline
HEADS = {
    "name": "compiler",
    "first_step_s": "first step [s]",
    COMPILE_S: "compile time [s]",
    "steady_ms": "steady [ms]",
    "steady_at_rows": "steady at [rows]",
    "steady_speedup": "steady speedup",
    "break_even": "break-even [calls]",
    "of_each_run": "of each run",
    GRAPHS: "graphs",
    GRAPH_BREAKS: "graph breaks",
    RECOMPILATIONS: "recompilations",
    RECOMPILE_S: "recompiling [s]",
    "runs": "runs",
    "reason": "reason",
}
"""Columns of compile.md; empty ones are left out."""
FIGURES = (
    "runs", "first_step_s", COMPILE_S, "steady_s", "steady_at_rows", "steady_speedup",
    "break_even_call", "break_even_outcome", "calls", GRAPHS, GRAPH_BREAKS, RECOMPILATIONS,
    RECOMPILE_S, COMPILED_AT, CACHE_HITS, CACHE_MISSES, "status", "reason",
)  # fmt: skip
FARTHEST = 1000.0  # estimates beyond this multiple of the measured calls are not drawn
NOTE = (
    "each line: the sum of all calls so far, on the slowest rank; dashed: with later calls as long "
    "as the median of the steady ones"
)


@dataclass(frozen=True)
class BreakEven:
    """The call from which on the cumulative time is at most that of the baseline.

    Attributes:
        outcome: WITHIN the measured calls; ESTIMATED, beyond them; NEVER, because steady calls are
            slower; UNCLEAR, because the interquartile ranges of the steady calls and of the
            baseline's overlap.
        call: number of the call from 1; None for NEVER and UNCLEAR.
        measured: number of compared calls.
    """

    outcome: str
    call: int | None
    measured: int

    def short(self) -> str:
        if self.call is None:
            return self.outcome
        return str(self.call) if self.outcome == WITHIN else f"about {round_estimate(self.call)}"

    def __str__(self) -> str:
        return self.short() + ("" if self.call else f", not within {self.measured}")


def round_estimate(count: int) -> int:
    """Round a number of calls to the two significant digits of an estimate."""
    return round(count, 1 - int(math.log10(count)))


def break_even(times: Array, baseline: Array, steady: Array, steady_baseline: Array) -> BreakEven:
    """Find the call from which on compiling has paid off.

    With C and E the sums of the first n calls, compiled and of the baseline, it is the smallest n
    such that C <= E for n and all later measured calls. If C > E after all N calls, later calls are
    assumed to take the median of the steady ones:

        n = N + (C - E) / (median steady baseline - median steady time).
    """
    number = min(len(times), len(baseline))
    behind_s = np.cumsum(times[:number]) - np.cumsum(baseline[:number])
    late = np.flatnonzero(behind_s > 0)
    if not late.size:
        return BreakEven(WITHIN, 1, number)
    if late[-1] + 1 < number:
        return BreakEven(WITHIN, int(late[-1]) + 2, number)
    compiled, eager = middle_half(steady), middle_half(steady_baseline)
    if compiled[0] > eager[1]:
        return BreakEven(NEVER, None, number)
    if compiled[1] >= eager[0]:
        return BreakEven(UNCLEAR, None, number)
    gain_s = median(steady_baseline) - median(steady)
    return BreakEven(ESTIMATED, number + math.ceil(behind_s[-1] / gain_s), number)


def middle_half(times: Array) -> tuple[float, float]:
    ordered = np.sort(times)
    return quantile(ordered, 0.25), quantile(ordered, 0.75)


@dataclass(frozen=True)
class Curve:
    """The calls of one compiler, from the first call of fresh ranks on.

    Attributes:
        name: compiler, with its cache and its handling of sizes if these vary.
        row: row of the latest run in the combined table, with median seconds of compilation.
        runs: seconds of each call of each run: [run][call].
        size_begins: index of the first call with the last measured size.
        short_of: last measured size if further sizes were not measured; else "".
    """

    name: str
    row: Row
    runs: Array
    size_begins: int
    short_of: str

    @property
    def times(self) -> Array:
        """Median seconds of each call over runs: [call]."""
        return medians(self.runs.T)

    @property
    def is_eager(self) -> bool:
        return bool(self.row[COMPILER] == EAGER)

    @property
    def steady(self) -> Array:
        return self.later_half(self.times)

    @property
    def steady_s(self) -> float:
        return float(median(self.steady))

    def break_even_against(self, baseline: "Curve", run: Array | None = None) -> BreakEven:
        """Return the break-even of this curve, or of one of its runs, against another curve."""
        times = self.times if run is None else run
        return break_even(times, baseline.times, self.later_half(times), baseline.steady)

    def later_half(self, times: Array) -> Array:
        """Return the later half of the calls with the last measured size."""
        at_size = times[self.size_begins :]
        return at_size[len(at_size) // 2 :]


@dataclass(frozen=True)
class CompilerGroup:
    """Compilers with one workload, on one machine.

    Attributes:
        curves: curves of the measured compilers, in the order of their first points.
        failed: rows of the others.
    """

    suffix: str
    curves: list[Curve]
    failed: list[Row]
    title: str

    @property
    def baseline(self) -> Curve | None:
        """The curve of eager code; None if it was not measured."""
        return next((curve for curve in self.curves if curve.is_eager), None)


def groups(table: pd.DataFrame) -> list[CompilerGroup]:
    rows = table[table["suite"] == SUITE]
    if rows.empty or not {*VARIANT, BATCH_SIZES} <= set(rows):
        return []
    if rows[BATCH_SIZES].nunique() == 1:  # A point that could not run has neither cases nor labels.
        rows = rows.assign(**{BATCH_SIZES: rows[BATCH_SIZES].dropna().iloc[0]})
    compiler_groups = [
        group_of(suffix, group) for suffix, group in group_equal_except(rows, *VARIANT)
    ]
    return [group for group in compiler_groups if group.curves]


def group_of(suffix: str, rows: pd.DataFrame) -> CompilerGroup:
    """Return the curves of comparable rows; eager code has neither cache nor symbolic sizes."""
    is_eager = rows[COMPILER] == EAGER
    compiled = rows[~is_eager]
    differing = [name for name in (CACHE, DYNAMIC) if compiled[name].nunique() > 1]
    names = rows[COMPILER].astype(str)
    for name in differing:
        names = names.where(is_eager, names + f", {name}=" + rows[name].astype(str).str.lower())
    rows = rows.assign(variant=names)
    measured, order = rows[rows["status"] == "ok"], list(dict.fromkeys(names))
    by_name = measured.groupby("variant", sort=False)
    all_curves = (curve_of(str(name), group) for name, group in by_name)
    curves = [curve for curve in all_curves if curve is not None]
    curves.sort(key=lambda curve: order.index(curve.name))
    curve_names = [curve.name for curve in curves]
    failed = rows[(rows["status"] != "ok") & ~rows["variant"].isin(curve_names)]
    failed = failed.drop_duplicates("variant", keep="last")
    title = rows["title"].iloc[0].partition(" by ")[0]
    return CompilerGroup(suffix, curves, failed.to_dict("records"), title)


def curve_of(name: str, rows: pd.DataFrame) -> Curve | None:
    """Return the curve of all runs of one variant; None if other calls preceded its first ones."""
    cold = rows[rows["mode"] == FIRST_CALLS]
    runs = [
        (row, case.samples.times, case) for row, case in rows_with_cases(cold) if not case.warmup_s
    ]
    if not runs:
        return None
    number = min(len(times) for _, times, _ in runs)
    of_runs = np.array([times[:number] for _, times, _ in runs])
    row, _, case = runs[-1]
    costs = {
        detail: median([timed.details[detail] for _, _, timed in runs])
        for detail in (COMPILE_S, RECOMPILE_S)
        if detail in case.details
    }
    sizes, calls = str(row[BATCH_SIZES]).split(","), int(case.details[CALLS_PER_SIZE])
    last = min(len(sizes) - 1, (number - 1) // calls)
    short_of = sizes[last] if last < len(sizes) - 1 else ""
    return Curve(name, {**row, **costs}, of_runs, last * calls, short_of)


def comparisons(group: CompilerGroup) -> Iterator[tuple[Curve, BreakEven | None]]:
    """Yield each curve with its break-even against eager; None without one.

    Curves that ended at different sizes are not compared.
    """
    baseline = group.baseline
    for curve in group.curves:
        if baseline is None or curve.is_eager or curve.short_of != baseline.short_of:
            yield curve, None
        else:
            yield curve, curve.break_even_against(baseline)


def write(table: pd.DataFrame) -> dict[str, str]:
    """Return a table for readers, and the same as plain numbers: seconds, numbers of calls."""
    compiler_groups = groups(table)
    if not compiler_groups:
        return {}
    parts = []
    for group in compiler_groups:
        head = f"## {group.suffix.strip('_') or group.title}" if len(compiler_groups) > 1 else ""
        parts.append(document(head, markdown(group)))
    rows = pd.DataFrame([row for group in compiler_groups for row in rows_of(group)])
    settings = [
        name for name in identity_columns(table) if rows.get(name, rows.suite).notna().any()
    ]
    columns = [name for name in (*settings, *FIGURES) if name in rows]
    return {"compile.md": document(*parts), "compile.csv": as_csv(rows[columns])}


def markdown(group: CompilerGroup) -> str:
    rows = pd.DataFrame(rows_of(group))
    if (rows["runs"].dropna() == 1).all():
        rows = rows.drop(columns="runs")
    with_values = [name for name in HEADS if name in rows and rows[name].notna().any()]
    return as_markdown(rows[with_values].rename(columns=HEADS), "compile.csv")


def rows_of(group: CompilerGroup) -> list[Row]:
    measured = [row_of(*pair, group.baseline) for pair in comparisons(group)]
    failed = [{**row, "name": row["variant"], "reason": failure_text(row)} for row in group.failed]
    return [*measured, *failed]


def failure_text(row: Row) -> str:
    """Format why there are no metrics: "unavailable: …", or "running" without a reason."""
    status, reason = str(row["status"]), row["reason"]
    return status if pd.isna(reason) else f"{status}: {shorten_reason(reason)}"


def row_of(curve: Curve, paid_off: BreakEven | None, baseline: Curve | None) -> Row:
    cells: dict[str, object] = {
        "name": curve.name,
        "runs": len(curve.runs),
        "first_step_s": float(curve.times[0]),
        "steady_s": curve.steady_s,
        "steady_ms": 1e3 * curve.steady_s,
        "steady_at_rows": curve.short_of or None,
        "calls": len(curve.times),
        "reason": None,
    }
    if paid_off and baseline:
        cells["steady_speedup"] = baseline.steady_s / curve.steady_s
        cells["break_even"] = str(paid_off)
        if len(curve.runs) > 1:
            of_runs = [curve.break_even_against(baseline, run).short() for run in curve.runs]
            cells["of_each_run"] = ", ".join(of_runs)
        cells["break_even_call"] = paid_off.call
        cells["break_even_outcome"] = paid_off.outcome
    return {**curve.row, **cells}


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    return {
        f"compile{group.suffix}": chart_of(group).of_group(group.suffix) for group in groups(table)
    }


def chart_of(group: CompilerGroup) -> Chart:
    """Return a chart of cumulative time over the number of calls, a line per compiler."""
    compared = [(curve, paid_off) for curve, paid_off in comparisons(group) if paid_off is not None]
    near = [
        paid_off.call
        for curve, paid_off in compared
        if paid_off.outcome == ESTIMATED
        and paid_off.call
        and paid_off.call <= FARTHEST * len(curve.times)
    ]
    words = ", ".join(f"{curve.name} {paid_off.short()}" for curve, paid_off in compared)
    return Chart(
        mark=LINES,
        title=f"When compiling pays: {group.title}",
        note=NOTE + (f"\nfrom which call on it has paid: {words}" if words else ""),
        x=Axis("calls", LOG),
        y=Axis("time of all calls so far", LOG, SECONDS),
        points=pd.concat([measured_sums(curve) for curve in group.curves]),
        curves=pd.concat([later_sums(curve, 1.5 * max(near, default=0)) for curve in group.curves]),
    )


def measured_sums(curve: Curve) -> pd.DataFrame:
    """Return the points of a curve at some of the measured calls."""
    number = len(curve.times)
    rounds = [digit * 10**power for power in range(9) for digit in (1, 2, 5)]
    calls = np.array([call for call in rounds if call < number] + [number])
    rows = pd.DataFrame([curve.row] * len(calls)).assign(sum_s=sums(curve, calls))
    return chart_points(rows, calls, ("sum_s",), curve.name)


def later_sums(curve: Curve, end: float) -> pd.DataFrame:
    number = len(curve.times)
    calls = np.geomspace(number, max(number, end), 50)
    cells = {"panel": "", "series": curve.name, "x": calls, "value": sums(curve, calls)}
    return pd.DataFrame(cells)


def sums(curve: Curve, calls: Array) -> Array:
    """Return the cumulative seconds of several numbers of calls.

    Calls beyond the measured ones take the median of the steady ones.
    """
    cumulative, number = np.cumsum(curve.times), len(curve.times)
    numbers = np.asarray(calls, dtype=float)
    within = cumulative[np.minimum(numbers, number).astype(int) - 1]
    return np.asarray(within + np.maximum(numbers - number, 0) * curve.steady_s)
