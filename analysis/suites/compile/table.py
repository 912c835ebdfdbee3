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
from analysis.shared.text import as_csv, shortened
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
VARIANT = (COMPILER, CACHE, DYNAMIC)  # what differs between a case and its baseline
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
"""Columns of compile.md. Those without any value are left out."""
FIGURES = (
    "runs", "first_step_s", COMPILE_S, "steady_s", "steady_at_rows", "steady_speedup",
    "break_even_call", "break_even_outcome", "calls", GRAPHS, GRAPH_BREAKS, RECOMPILATIONS,
    RECOMPILE_S, COMPILED_AT, CACHE_HITS, CACHE_MISSES, "status", "reason",
)  # fmt: skip
FARTHEST = 1000.0  # an estimate beyond this multiple of the calls that were measured is not drawn
NOTE = (
    "each line: the sum of all calls so far, on the slowest rank; dashed: with later calls as long "
    "as the median of the steady ones"
)


@dataclass(frozen=True)
class BreakEven:
    """From which call on the sum of all calls is at most that of the baseline.

    Attributes:
        outcome: WITHIN the calls that were measured; ESTIMATED, beyond them; NEVER, because steady
            calls are slower; UNCLEAR, because the middle halves of the steady calls and of the
            baseline's overlap, so that their difference says little.
        call: its number from 1; None for NEVER and UNCLEAR.
        measured: how many calls were compared.
    """

    outcome: str
    call: int | None
    measured: int

    def short(self) -> str:
        if self.call is None:
            return self.outcome
        return str(self.call) if self.outcome == WITHIN else f"about {rounded(self.call)}"

    def __str__(self) -> str:
        return self.short() + ("" if self.call else f", not within {self.measured}")


def rounded(count: int) -> int:
    """Return a number of calls with the two digits that an estimate has."""
    return round(count, 1 - int(math.log10(count)))


def break_even(times: Array, baseline: Array, steady: Array, steady_baseline: Array) -> BreakEven:
    """Find the call from which on compiling has paid, to the end of what was measured.

    With C and E the sums of the first n calls, compiled and as the baseline, it is the smallest n
    such that C <= E for n and for all later calls. Where C > E after all N calls, later calls are
    taken to last as long as the median of the steady ones, so that

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
    """The calls of one compiler, from the first one of fresh ranks on.

    Attributes:
        name: the compiler, with its cache and its handling of sizes where these differ.
        row: of the combined table, of the latest run, with median seconds of compilation.
        runs: seconds of each call of each run: [run][call].
        size_begins: index of the first call with the last size that was reached.
        short_of: that size, where measuring ended before the last one; else "".
    """

    name: str
    row: Row
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
        return self.later_half(self.times)

    @property
    def steady_s(self) -> float:
        return float(median(self.steady))

    def against(self, baseline: "Curve", run: Array | None = None) -> BreakEven:
        """Return from which call on this curve, or one of its runs, is below another curve."""
        times = self.times if run is None else run
        return break_even(times, baseline.times, self.later_half(times), baseline.steady)

    def later_half(self, times: Array) -> Array:
        """Return the later half of the calls with the last size that was reached."""
        at_size = times[self.size_begins :]
        return at_size[len(at_size) // 2 :]


@dataclass(frozen=True)
class CompilerGroup:
    """Compilers with the same workload, on the same machine.

    Attributes:
        curves: of those that were measured, in the order of their first points.
        failed: rows of those that were not.
    """

    suffix: str
    curves: list[Curve]
    failed: list[Row]
    title: str

    @property
    def baseline(self) -> Curve | None:
        """The eager code; None where it was not measured."""
        return next((curve for curve in self.curves if curve.is_eager), None)


def groups(table: pd.DataFrame) -> list[CompilerGroup]:
    rows = table[table["suite"] == SUITE]
    if rows.empty or not {*VARIANT, BATCH_SIZES} <= set(rows):
        return []
    if rows[BATCH_SIZES].nunique() == 1:  # A point that could not run has no cases, nor labels.
        rows = rows.assign(**{BATCH_SIZES: rows[BATCH_SIZES].dropna().iloc[0]})
    found = [group_of(suffix, group) for suffix, group in group_equal_except(rows, *VARIANT)]
    return [group for group in found if group.curves]


def group_of(suffix: str, rows: pd.DataFrame) -> CompilerGroup:
    """Return the curves of comparable rows; eager code has no cache and no symbols for sizes."""
    is_eager = rows[COMPILER] == EAGER
    compiled = rows[~is_eager]
    differing = [name for name in (CACHE, DYNAMIC) if compiled[name].nunique() > 1]
    names = rows[COMPILER].astype(str)
    for name in differing:
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
    return CompilerGroup(suffix, curves, failed.to_dict("records"), title)


def curve_of(name: str, rows: pd.DataFrame) -> Curve | None:
    """Return the curve of all runs of one variant; None where others came before its calls."""
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
        detail: median([each.details[detail] for _, _, each in runs])
        for detail in (COMPILE_S, RECOMPILE_S)
        if detail in case.details
    }
    sizes, calls = str(row[BATCH_SIZES]).split(","), int(case.details[CALLS_PER_SIZE])
    last = min(len(sizes) - 1, (number - 1) // calls)
    short_of = sizes[last] if last < len(sizes) - 1 else ""
    return Curve(name, {**row, **costs}, of_runs, last * calls, short_of)


def comparisons(group: CompilerGroup) -> Iterator[tuple[Curve, BreakEven | None]]:
    """Yield each curve with its break-even against eager, None where there is none.

    Curves that ended at different sizes are not compared.
    """
    baseline = group.baseline
    for curve in group.curves:
        if baseline is None or curve.is_eager or curve.short_of != baseline.short_of:
            yield curve, None
        else:
            yield curve, curve.against(baseline)


def write(table: pd.DataFrame) -> dict[str, str]:
    """Write a table for readers, and the same as plain numbers: seconds, numbers of calls."""
    found = groups(table)
    if not found:
        return {}
    parts = []
    for group in found:
        head = f"## {group.suffix.strip('_') or group.title}" if len(found) > 1 else ""
        parts.append(document(head, markdown(group)))
    rows = pd.DataFrame([row for group in found for row in rows_of(group)])
    settings = [
        name for name in identity_columns(table) if rows.get(name, rows.suite).notna().any()
    ]
    columns = [name for name in (*settings, *FIGURES) if name in rows]
    return {"compile.md": document(*parts), "compile.csv": as_csv(rows[columns])}


def markdown(group: CompilerGroup) -> str:
    rows = pd.DataFrame(rows_of(group))
    if (rows["runs"].dropna() == 1).all():
        rows = rows.drop(columns="runs")
    known = [name for name in HEADS if name in rows and rows[name].notna().any()]
    return as_markdown(rows[known].rename(columns=HEADS), "compile.csv")


def rows_of(group: CompilerGroup) -> list[Row]:
    measured = [row_of(*pair, group.baseline) for pair in comparisons(group)]
    failed = [{**row, "name": row["variant"], "reason": failure_text(row)} for row in group.failed]
    return [*measured, *failed]


def failure_text(row: Row) -> str:
    """Format why there are no figures: "unavailable: …", or "running" where no reason is known."""
    status, reason = str(row["status"]), row["reason"]
    return status if pd.isna(reason) else f"{status}: {shortened(reason)}"


def row_of(curve: Curve, found: BreakEven | None, baseline: Curve | None) -> Row:
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
    if found and baseline:
        cells["steady_speedup"] = baseline.steady_s / curve.steady_s
        cells["break_even"] = str(found)
        if len(curve.runs) > 1:
            each = [curve.against(baseline, run).short() for run in curve.runs]
            cells["of_each_run"] = ", ".join(each)
        cells["break_even_call"] = found.call
        cells["break_even_outcome"] = found.outcome
    return {**curve.row, **cells}


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    return {
        f"compile{group.suffix}": chart_of(group).of_group(group.suffix) for group in groups(table)
    }


def chart_of(group: CompilerGroup) -> Chart:
    """Show the sum of all calls so far over their number, a line per compiler."""
    paid = [(curve, found) for curve, found in comparisons(group) if found is not None]
    near = [
        found.call
        for curve, found in paid
        if found.outcome == ESTIMATED and found.call and found.call <= FARTHEST * len(curve.times)
    ]
    words = ", ".join(f"{curve.name} {found.short()}" for curve, found in paid)
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
    """Return the points of a curve at some of the calls that were measured."""
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
    """Return the seconds of the first calls, for several numbers of calls.

    Calls beyond those that were measured take the median of the steady ones.
    """
    known, number = np.cumsum(curve.times), len(curve.times)
    asked = np.asarray(calls, dtype=float)
    within = known[np.minimum(asked, number).astype(int) - 1]
    return np.asarray(within + np.maximum(asked - number, 0) * curve.steady_s)
