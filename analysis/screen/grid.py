"""The table of the first screen: problems and variants in rows and columns of a fixed width.

The columns are variants, or problems, or the baseline and the best variant of each problem. Layouts
are tried from the widest one to the narrowest.
"""

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import Any

import pandas as pd

from analysis.records.results import Row
from analysis.shared.text import format_bounds, format_number, half_width, three_digits
from analysis.shared.text_table import GAP, NUMBERS, WORDS, TextColumn, TextTable
from analysis.table.repetitions import INTERVALS
from analysis.table.speedup import Speedup, Variant
from analysis.table.variants import SuiteResults
from benchkit.api.question import Metric

WIDTH = 80
MOST_ACROSS = 3
"""Variants, or problems, side by side."""


@dataclass
class ScreenTable:
    """A table of text: words at the left, numbers at the right.

    Attributes:
        headers: of each column, in two lines.
        rows: a cell per column.
        num_words: columns of words, which come first.
        is_ranked: whether rows are sorted by importance, so that a long table is cut at its end.
        left_out: a line on what has no cell; "" without.
    """

    headers: list[tuple[str, str]]
    rows: list[list[str]]
    num_words: int
    is_ranked: bool = False
    left_out: str = ""

    def lines(self, most: int = 0) -> list[str]:
        """Return heads and rows; of more rows than `most`, the first and the last ones."""
        most = max(0, most - bool(self.left_out)) if most else 0
        num_left = len(self.rows) - most + 1 if 0 < most < len(self.rows) else 0
        cut = most - 1 if self.is_ranked else (most - 1) // 2
        columns = self.table([*self.rows[:cut], *self.rows[cut + num_left :]]).columns
        used = [column for column in columns if any((column.head.strip(), *column.cells))]
        lines = TextTable(used).plain_lines()
        lines[2 + cut : 2 + cut] = [f"… {num_left} more rows"] * bool(num_left)
        lines += [self.left_out] * bool(self.left_out)
        return [line for number, line in enumerate(lines) if line or number > 1]

    def table(self, rows: Sequence[Sequence[str]] | None = None) -> TextTable:
        """Return the columns with some rows; by default with all."""
        rows = self.rows if rows is None else rows
        kinds = [WORDS] * self.num_words + [NUMBERS] * (len(self.headers) - self.num_words)
        cells = [[row[position] for row in rows] for position in range(len(kinds))]
        heads = map("\n".join, self.headers)
        return TextTable(list(map(TextColumn, heads, cells, kinds)))

    @property
    def width(self) -> int:
        return max(map(len, replace(self, left_out="").lines()), default=0)


def grid_of(results: SuiteResults) -> ScreenTable:
    """Return the first layout that fits, or the narrowest one."""
    for grid in layouts(results):
        if grid.width <= WIDTH:
            break
    return grid


def layouts(results: SuiteResults) -> Iterator[ScreenTable]:
    """Yield variants across, problems across, medians, or one row per problem, the widest first."""
    if not any(variant.speedup for variant in results.variants):
        yield from plain_grids(results)
    elif len(results.names) <= MOST_ACROSS and len(results.by_problem) > 1:
        yield from variants_across(results)
    else:
        yield from problems_across(results)
        yield (grid := best_of_each(results))
        yield drop_intervals(grid)


def variants_across(results: SuiteResults) -> Iterator[ScreenTable]:
    """Lay out a row per problem, with other metrics, without, and without intervals."""
    if metrics := metrics_of(results)[1:]:
        yield grid_of_variants(results, metrics)
    yield (grid := grid_of_variants(results, []))
    yield drop_intervals(grid)


def grid_of_variants(results: SuiteResults, metrics: Sequence[Metric]) -> ScreenTable:
    """Lay out time and speedup of every variant, and other metrics of the last one compared."""
    time, columns = time_metric(results), columns_of_problem(results)
    compared = {variant.name for variant in results.variants if variant.speedup}
    shown_last = [name for name in results.names if name in compared][-1]
    heads = [("", name) for name in columns]
    for name in results.names:
        heads.append((name, f"[{time.unit}]"))
        heads += [("", "ratio"), ("", "")] if name in compared else []
        heads += heads_of(metrics, name) if name == shown_last else []
    rows = []
    for number, variants in results.by_problem.items():
        by_name = {variant.name: variant for variant in variants}
        starred = results.leaders(number)
        cells = problem_cells(results, variants[0].row, columns)
        for name in results.names:
            shown_metrics = metrics if name == shown_last else []
            if variant := by_name.get(name):
                has_speedup = name in compared
                is_starred = name in starred and not has_speedup
                cells.append(format_metric_value(time, variant.row) + " *" * is_starred)
                cells += speedup_cells(variant, starred) if has_speedup else []
                cells += other_cells(shown_metrics, variant)
            else:
                cells += [""] * (1 + 2 * (name in compared) + len(shown_metrics))
        rows.append(cells)
    return ScreenTable(heads, rows, len(columns))


def problems_across(results: SuiteResults) -> Iterator[ScreenTable]:
    """Lay out a row per variant, the fastest at the end of the scale first, in decreasing width."""
    last = {
        variant.name: variant.relative_time
        for variant in results.variants
        if not variant.is_baseline
    }
    bases = results.baselines
    compared = [name for name in results.names if name not in bases]
    names = [*bases, *sorted(compared, key=lambda name: last.get(name, 0.0))]
    if GAP * len(results.by_problem) < WIDTH:
        time, *other_metrics = metrics_of(results)
        for metrics in [other_metrics, []] if other_metrics else [[]]:
            yield (grid := grid_of_problems(results, names, [time, *metrics]))
            yield drop_intervals(grid)
        if len(bases) == 1:
            yield speedups_of_problems(results, names)
    if len(bases) == 1:
        yield from medians_along_scale(results, names)


def grid_of_problems(
    results: SuiteResults, names: Sequence[str], metrics: Sequence[Metric]
) -> ScreenTable:
    """Lay out time, speedup and other metrics of every variant of every problem."""
    time, *other_metrics = metrics
    heads, rows = [("", "")], [[name] for name in names]
    for number, variants in results.by_problem.items():
        words = problem_cells(results, variants[0].row, columns_of_problem(results))
        title = " ".join(filter(None, words))
        heads += [
            (title, f"[{time.unit}]"),
            ("", ""),
            ("", "ratio"),
            ("", ""),
            *heads_of(other_metrics),
        ]
        by_name, starred = {variant.name: variant for variant in variants}, results.leaders(number)
        for name, cells in zip(names, rows, strict=True):
            if variant := by_name.get(name):
                cells += [format_metric_value(time, variant.row), range_cell(time, variant.row)]
                cells += speedup_cells(variant, starred)
                cells += other_cells(other_metrics, variant)
            else:
                cells += [""] * (4 + len(other_metrics))
    return ScreenTable(heads, rows, 1, is_ranked=True)


def speedups_of_problems(results: SuiteResults, names: Sequence[str]) -> ScreenTable:
    """Lay out the time of the baseline in every problem, and the speedups of the others."""
    time, base = time_metric(results), names[0]
    heads, rows = [("", f"× as fast as {base}")], [[name] for name in names]
    rows[0] = [f"{base} [{time.unit}]"]
    for number, variants in results.by_problem.items():
        words = filter(None, problem_cells(results, variants[0].row, columns_of_problem(results)))
        title, *more_words = [*words, ""]
        heads.append((title, " ".join(more_words).strip()))
        by_name, starred = {variant.name: variant for variant in variants}, results.leaders(number)
        for name, cells in zip(names, rows, strict=True):
            variant = by_name.get(name)
            if name == base:
                cells.append(format_metric_value(time, variant.row) if variant else "")
            else:
                cells.append(speedup_cells(variant, starred)[0] if variant else "")
    return ScreenTable(heads, rows, 1, is_ranked=True)


def medians_along_scale(results: SuiteResults, names: Sequence[str]) -> Iterator[ScreenTable]:
    """Lay out the median speedups of every variant along one scale of the problem, then along more.

    They are over the problems that have the baseline and all other variants.
    """
    compared_names = {variant.name for variant in results.variants if variant.speedup}
    complete = [
        variants
        for variants in results.by_problem.values()
        if compared_names == {variant.name for variant in variants if variant.speedup}
    ]
    scales = results.scale
    for num_kept in range(len(scales) - 1, -1, -1):
        columns = [name for name in results.problem_columns if name not in scales[num_kept:]]
        groups: dict[tuple[str, ...], list[list[Variant]]] = {}
        for variants in complete:
            key = tuple(problem_cells(results, variants[0].row, columns))
            groups.setdefault(key, []).append(variants)
        counts = sorted({len(group) for group in groups.values()})
        if not counts or counts[-1] < 2:
            continue
        num_settings = "-".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        heads = [("median of × as fast", f"as {names[0]}, of {num_settings} settings")]
        rows = [[name] for name in names if name in compared_names]
        for words, group in groups.items():
            first, *more_words = [*filter(None, words), ""]
            heads.append((first, " ".join(more_words).strip()))
            for cells in rows:
                every = (variant for variants in group for variant in variants)
                named = (variant.speedup for variant in every if variant.name == cells[0])
                middle = median([speedup.value for speedup in named if speedup])
                cells.append(three_digits(middle))
        num_left = len(results.by_problem) - len(complete)
        left_out = f"without {num_left} settings that lack a variant" if num_left else ""
        yield ScreenTable(heads, rows, 1, is_ranked=True, left_out=left_out)


def heads_of(metrics: Sequence[Metric], variant_name: str = "") -> list[tuple[str, str]]:
    """Return the heads of some metrics, those of one variant with its name."""
    if variant_name:
        return [(variant_name, f"{metric.head} [{metric.unit}]".strip()) for metric in metrics]
    return [(metric.head, f"[{metric.unit}]") for metric in metrics]


def other_cells(metrics: Sequence[Metric], variant: Variant) -> list[str]:
    """Return cells of metrics beside the time; empty for components, which do part of the work."""
    is_part = variant.row.get("is_component") is True
    return ["" if is_part else format_metric_value(metric, variant.row) for metric in metrics]


def best_of_each(results: SuiteResults) -> ScreenTable:
    """Lay out a row per problem: the baseline beside the variant of the answer, or the best."""
    metric, columns = time_metric(results), columns_of_problem(results)
    bases, tops = [], []
    for variants in results.by_problem.values():
        bases.append(next((variant for variant in variants if variant.is_baseline), None))
        focus = [variant for variant in variants if variant.is_focus and variant.is_candidate]
        competing = [variant for variant in variants if not variant.is_bound]
        tops.append(min(focus or competing or variants, key=lambda variant: variant.relative_time))
    base, top = ({variant.name for variant in column if variant} for column in (bases, tops))
    heads = [("", name) for name in columns] + [(single_name(base), f"[{metric.unit}]")]
    heads += [(single_name(top), f"[{metric.unit}]"), ("", "ratio"), ("", "")]
    heads += [("fastest", "")] * (len(top) > 1)
    rows = []
    for first, best in zip(bases, tops, strict=True):
        cells = [
            format_metric_value(metric, first.row) if first else "",
            format_metric_value(metric, best.row),
        ]
        cells += speedup_cells(best) + [best.name] * (len(top) > 1)
        rows.append(problem_cells(results, best.row, columns) + cells)
    not_shown = [name for name in results.names if name not in base | top]
    return ScreenTable(
        heads,
        rows,
        len(columns),
        left_out=f"Not shown: {', '.join(not_shown)}" if not_shown else "",
    )


def single_name(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ""


def plain_grids(results: SuiteResults) -> Iterator[ScreenTable]:
    """Lay out cases that are not compared, in decreasing width."""
    metrics = results.question.metrics[1:]
    other_metrics = [
        m for m in metrics if any(has_metric(m, variant.row) for variant in results.variants)
    ]
    for most in range(len(other_metrics), 1, -1):
        yield plain_grid(results, other_metrics[:most])
    yield (grid := plain_grid(results, other_metrics[:1]))
    yield drop_intervals(grid)


def plain_grid(results: SuiteResults, other_metrics: Sequence[Metric]) -> ScreenTable:
    """Lay out a row per problem, one column's values side by side, and other metrics."""
    question = results.question
    across = question.panel_column if question.panel_column in results.problem_columns else ""
    columns = [name for name in columns_of_problem(results) if name != across]
    by_row: dict[tuple[Any, ...], list[Variant]] = {}
    for variant in results.variants:
        key = (*(str(variant.row[name]) for name in columns), "" if across else variant.name)
        by_row.setdefault(key, []).append(variant)
    values = (
        list(dict.fromkeys(variant.row[across] for variant in results.variants)) if across else [""]
    )
    has_names = not across and len(results.names) > 1
    heads = [("", name) for name in columns] + [("", "")] * has_names
    num_words = len(heads)
    time = time_metric(results)
    for value in values:
        heads += [
            (results.format_value(across, value) if across else "", f"[{time.unit}]"),
            ("", ""),
        ]
    heads += heads_of(other_metrics)
    rows = []
    for variants in by_row.values():
        cells = problem_cells(results, variants[0].row, columns) + [variants[0].name] * has_names
        for value in values:
            rows_here = [
                variant.row for variant in variants if not across or variant.row[across] == value
            ]
            cells += (
                [format_metric_value(time, rows_here[0]), range_cell(time, rows_here[0])]
                if rows_here
                else ["", ""]
            )
        for metric in other_metrics:
            rows_with_metric = [
                variant.row for variant in variants if has_metric(metric, variant.row)
            ]
            cells.append(
                format_metric_value(metric, rows_with_metric[-1]) if rows_with_metric else ""
            )
        rows.append(cells)
    return ScreenTable(heads, rows, num_words)


def drop_intervals(grid: ScreenTable) -> ScreenTable:
    """Leave out the columns of intervals, which have no head."""
    keep = [i for i, head in enumerate(grid.headers) if i < grid.num_words or head != ("", "")]
    rows = [[row[i] for i in keep] for row in grid.rows]
    return replace(grid, headers=[grid.headers[i] for i in keep], rows=rows)


def columns_of_problem(results: SuiteResults) -> list[str]:
    first = [name for name in results.question.problem if name in results.problem_columns]
    return first + [name for name in results.problem_columns if name not in first]


def problem_cells(results: SuiteResults, row: Row, columns: Sequence[str]) -> list[str]:
    return ["" if pd.isna(row[name]) else results.format_value(name, row[name]) for name in columns]


def range_cell(metric: Metric, row: Row) -> str:
    interval = interval_of(metric.column, row)
    if not interval or interval[0] == interval[1]:
        return ""
    low, high, value = (metric.scale * number for number in (*interval, float(row[metric.column])))
    text = "–".join(format_bounds(low, high, max(half_width(low, high), abs(value) / 100), value))
    return f"[{text}]" if has_interval(metric.column, row) else text


def speedup_cells(variant: Variant, starred: Container[str] = ()) -> list[str]:
    """Return a speedup, with a star for leaders, and its interval; a baseline has 1."""
    speedup = variant.speedup
    if not speedup:
        text, interval = "1" if variant.is_baseline else "", ""
    else:
        half = known_half_width(speedup)
        text = format_number(speedup.value, half)
        interval = (
            "–".join(format_bounds(*speedup.interval_or_range, half, speedup.value))
            if speedup.interval_or_range
            else ""
        )
        interval = f"[{interval}]" if speedup.is_interval else interval
    return [f"{text} *" if text and variant.name in starred else text, interval]


# Numbers, with as many digits as are known


def known_half_width(speedup: Speedup) -> float:
    """Return the half width that sets a speedup's digits, at least one percent of it."""
    if not speedup.interval_or_range:
        return 0.01 * speedup.value
    return max(half_width(*speedup.interval_or_range), 0.01 * speedup.value)


def format_speedup(speedup: Speedup) -> str:
    """Format "1.43 × as fast as gloo", with as many digits as its interval allows."""
    ratio = format_number(speedup.value, known_half_width(speedup))
    return f"{ratio} × as fast as {speedup.reference.name}".rstrip()


def time_metric(results: SuiteResults) -> Metric:
    """Return the time metric for every case, without the filter of the answer."""
    return replace(results.question.metrics[0], row_filter={}, scale_end="")


def metrics_of(results: SuiteResults) -> list[Metric]:
    """Return the time, and the first of the other metrics that any variant has."""
    rows = [variant.row for variant in results.variants]
    other_metrics = (
        m for m in results.question.metrics[1:] if any(has_metric(m, row) for row in rows)
    )
    return [time_metric(results), *islice(other_metrics, 1)]


def has_metric(metric: Metric, row: Row) -> bool:
    return not pd.isna(row.get(metric.column)) and all(
        str(row.get(name)) == str(value) for name, value in metric.row_filter.items()
    )


def format_metric_value(metric: Metric, row: Row) -> str:
    """Format a metric with three digits: a speedup is the quotient of the times beside it."""
    if not has_metric(metric, row):
        return ""
    value = metric.scale * float(row[metric.column])
    text = three_digits(value)
    return f"{float(text):,.0f}" if abs(value) >= 1e4 else text


def format_metric(metric: Metric, row: Row) -> str:
    """Format a metric with its unit and, of a share, the peak; "" where a row has none."""
    text = format_metric_value(metric, row)
    if not text:
        return ""
    if metric.unit != "%":
        return " ".join(filter(None, (metric.head, text, metric.unit)))
    peak = float(row.get(metric.peak_column, math.nan))
    of_peak = "" if math.isnan(peak) else f" of {format_number(peak, peak / 10)} TFLOP/s"
    return f"{text} % {metric.head}{of_peak}"


def is_beyond_ideal(metric: Metric, row: Row) -> bool:
    """Return whether a share is above 100 % on a doubtful row, which says why."""
    is_share = metric.unit == "%" and has_metric(metric, row)
    return is_share and row[metric.column] * metric.scale > 100 and not pd.isna(row.get("doubt"))


def has_interval(column: str, row: Row) -> bool:
    return column in INTERVALS and not pd.isna(row.get(INTERVALS[column][0]))


def interval_of(column: str, row: Row) -> tuple[float, float] | None:
    """Return the interval of a metric or, without one, its range; None without either."""
    names = INTERVALS.get(column, ())
    for low, high in (names[:2], names[2:]) if names else ():
        if not pd.isna(row.get(low)):
            return row[low], row[high]
    return None
