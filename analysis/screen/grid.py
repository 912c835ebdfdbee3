"""The table of the first screen: problems and variants in rows and columns of a fixed width.

Variants stand across, or problems, or each problem beside its best variant; the layouts are tried
from the widest one to the narrowest.
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
"""Variants, or problems, that stand side by side."""


@dataclass
class ScreenTable:
    """A table of text: words at the left, numbers at the right.

    Attributes:
        headers: of each column, in two lines.
        rows: a cell per column.
        num_words: columns of words, which come first.
        is_ranked: whether the last rows say the least.
        left_out: what has no cell, in a line; "" where all has.
    """

    headers: list[tuple[str, str]]
    rows: list[list[str]]
    num_words: int
    is_ranked: bool = False
    left_out: str = ""

    def lines(self, most: int = 0) -> list[str]:
        """Return the heads and the rows; of too many rows the first ones, and the last ones."""
        most = max(0, most - bool(self.left_out)) if most else 0
        left = len(self.rows) - most + 1 if 0 < most < len(self.rows) else 0
        cut = most - 1 if self.is_ranked else (most - 1) // 2
        columns = self.table([*self.rows[:cut], *self.rows[cut + left :]]).columns
        used = [column for column in columns if any((column.head.strip(), *column.cells))]
        lines = TextTable(used).plain_lines()
        lines[2 + cut : 2 + cut] = [f"… {left} more rows"] * bool(left)
        lines += [self.left_out] * bool(self.left_out)
        return [line for number, line in enumerate(lines) if line or number > 1]

    def table(self, rows: Sequence[Sequence[str]] | None = None) -> TextTable:
        """Return the columns with some rows; by default with all."""
        rows = self.rows if rows is None else rows
        kinds = [WORDS] * self.num_words + [NUMBERS] * (len(self.headers) - self.num_words)
        cells = [[row[place] for row in rows] for place in range(len(kinds))]
        heads = map("\n".join, self.headers)
        return TextTable(list(map(TextColumn, heads, cells, kinds)))

    @property
    def width(self) -> int:
        return max(map(len, replace(self, left_out="").lines()), default=0)


def grid_of(variants: SuiteResults) -> ScreenTable:
    """Lay out what is compared in the first layout that fits, or in the narrowest one."""
    for grid in layouts(variants):
        if grid.width <= WIDTH:
            break
    return grid


def layouts(variants: SuiteResults) -> Iterator[ScreenTable]:
    """Yield variants across, problems across, medians, or one row per problem, the widest first."""
    if not any(variant.speedup for variant in variants.variants):
        yield from plain_grids(variants)
    elif len(variants.names) <= MOST_ACROSS and len(variants.by_problem) > 1:
        yield from variants_across(variants)
    else:
        yield from problems_across(variants)
        yield (grid := best_of_each(variants))
        yield without_intervals(grid)


def variants_across(variants: SuiteResults) -> Iterator[ScreenTable]:
    """Lay out a row per problem, with other metrics, without, and without intervals."""
    if metrics := metrics_of(variants)[1:]:
        yield grid_of_variants(variants, metrics)
    yield (grid := grid_of_variants(variants, []))
    yield without_intervals(grid)


def grid_of_variants(variants: SuiteResults, metrics: Sequence[Metric]) -> ScreenTable:
    """Lay out time and speedup of every variant, and other metrics of the last one compared."""
    time, columns = time_metric(variants), columns_of_problem(variants)
    compared = {variant.name for variant in variants.variants if variant.speedup}
    shown_last = [name for name in variants.names if name in compared][-1]
    heads = [("", name) for name in columns]
    for name in variants.names:
        heads.append((name, f"[{time.unit}]"))
        heads += [("", "ratio"), ("", "")] if name in compared else []
        heads += heads_of(metrics, name) if name == shown_last else []
    rows = []
    for number, own in variants.by_problem.items():
        by_name = {variant.name: variant for variant in own}
        starred = variants.leaders(number)
        cells = problem_cells(variants, own[0].row, columns)
        for name in variants.names:
            more = metrics if name == shown_last else []
            if variant := by_name.get(name):
                has_speedup = name in compared
                is_starred = name in starred and not has_speedup
                cells.append(format_metric_value(time, variant.row) + " *" * is_starred)
                cells += speedup_cells(variant, starred) if has_speedup else []
                cells += other_cells(more, variant)
            else:
                cells += [""] * (1 + 2 * (name in compared) + len(more))
        rows.append(cells)
    return ScreenTable(heads, rows, len(columns))


def problems_across(variants: SuiteResults) -> Iterator[ScreenTable]:
    """Lay out a row per variant, the fastest at the end of the scale first, in less width each."""
    last = {each.name: each.relative_time for each in variants.variants if not each.is_baseline}
    bases = variants.baselines
    compared = [name for name in variants.names if name not in bases]
    names = [*bases, *sorted(compared, key=lambda name: last.get(name, 0.0))]
    if GAP * len(variants.by_problem) < WIDTH:
        time, *others = metrics_of(variants)
        for metrics in [others, []] if others else [[]]:
            yield (grid := grid_of_problems(variants, names, [time, *metrics]))
            yield without_intervals(grid)
        if len(bases) == 1:
            yield speedups_of_problems(variants, names)
    if len(bases) == 1:
        yield from medians_along_scale(variants, names)


def grid_of_problems(
    variants: SuiteResults, names: Sequence[str], metrics: Sequence[Metric]
) -> ScreenTable:
    """Lay out time, speedup and other metrics of every variant of every problem."""
    time, *others = metrics
    heads, rows = [("", "")], [[name] for name in names]
    for number, own in variants.by_problem.items():
        words = problem_cells(variants, own[0].row, columns_of_problem(variants))
        title = " ".join(filter(None, words))
        heads += [(title, f"[{time.unit}]"), ("", ""), ("", "ratio"), ("", ""), *heads_of(others)]
        by_name, starred = {variant.name: variant for variant in own}, variants.leaders(number)
        for name, cells in zip(names, rows, strict=True):
            if variant := by_name.get(name):
                cells += [format_metric_value(time, variant.row), range_cell(time, variant.row)]
                cells += speedup_cells(variant, starred)
                cells += other_cells(others, variant)
            else:
                cells += [""] * (4 + len(others))
    return ScreenTable(heads, rows, 1, is_ranked=True)


def speedups_of_problems(variants: SuiteResults, names: Sequence[str]) -> ScreenTable:
    """Lay out the time of the baseline in every problem, and the speedups of the others."""
    time, base = time_metric(variants), names[0]
    heads, rows = [("", f"× as fast as {base}")], [[name] for name in names]
    rows[0] = [f"{base} [{time.unit}]"]
    for number, own in variants.by_problem.items():
        words = filter(None, problem_cells(variants, own[0].row, columns_of_problem(variants)))
        title, *more = [*words, ""]
        heads.append((title, " ".join(more).strip()))
        by_name, starred = {variant.name: variant for variant in own}, variants.leaders(number)
        for name, cells in zip(names, rows, strict=True):
            variant = by_name.get(name)
            if name == base:
                cells.append(format_metric_value(time, variant.row) if variant else "")
            else:
                cells.append(speedup_cells(variant, starred)[0] if variant else "")
    return ScreenTable(heads, rows, 1, is_ranked=True)


def medians_along_scale(variants: SuiteResults, names: Sequence[str]) -> Iterator[ScreenTable]:
    """Lay out the median speedups of every variant along one scale of the problem, then along more.

    They are over the problems that have the baseline and all other variants.
    """
    every = {each.name for each in variants.variants if each.speedup}
    whole = [
        own
        for own in variants.by_problem.values()
        if every == {variant.name for variant in own if variant.speedup}
    ]
    scales = [
        name for name in variants.question.scaling_columns if name in variants.problem_columns
    ]
    for num_kept in range(len(scales) - 1, -1, -1):
        columns = [name for name in variants.problem_columns if name not in scales[num_kept:]]
        groups: dict[tuple[str, ...], list[list[Variant]]] = {}
        for own in whole:
            key = tuple(problem_cells(variants, own[0].row, columns))
            groups.setdefault(key, []).append(own)
        counts = sorted({len(group) for group in groups.values()})
        if not counts or counts[-1] < 2:
            continue
        of = "-".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        heads = [("median of × as fast", f"as {names[0]}, of {of} settings")]
        rows = [[name] for name in names if name in every]
        for words, group in groups.items():
            first, *more = [*filter(None, words), ""]
            heads.append((first, " ".join(more).strip()))
            for cells in rows:
                of_name = (each for own in group for each in own if each.name == cells[0])
                middle = median([each.speedup.value for each in of_name if each.speedup])
                cells.append(three_digits(middle))
        left = len(variants.by_problem) - len(whole)
        left_out = f"without {left} settings that lack a variant" if left else ""
        yield ScreenTable(heads, rows, 1, is_ranked=True, left_out=left_out)


def heads_of(metrics: Sequence[Metric], of: str = "") -> list[tuple[str, str]]:
    """Return the heads of some metrics, those of one variant with its name."""
    if of:
        return [(of, f"{metric.head} [{metric.unit}]".strip()) for metric in metrics]
    return [(metric.head, f"[{metric.unit}]") for metric in metrics]


def other_cells(metrics: Sequence[Metric], variant: Variant) -> list[str]:
    """Return metrics beside the time; a component has none, since it does a part of the work."""
    is_part = variant.row.get("is_component") is True
    return ["" if is_part else format_metric_value(metric, variant.row) for metric in metrics]


def best_of_each(variants: SuiteResults) -> ScreenTable:
    """Lay out a row per problem: the baseline beside the variant of the answer, or the best."""
    metric, columns = time_metric(variants), columns_of_problem(variants)
    bases, tops = [], []
    for own in variants.by_problem.values():
        bases.append(next((variant for variant in own if variant.is_baseline), None))
        focus = [variant for variant in own if variant.is_focus and variant.is_candidate]
        competing = [variant for variant in own if not variant.is_bound]
        tops.append(min(focus or competing or own, key=lambda variant: variant.relative_time))
    base, top = ({each.name for each in column if each} for column in (bases, tops))
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
        rows.append(problem_cells(variants, best.row, columns) + cells)
    lost = [name for name in variants.names if name not in base | top]
    return ScreenTable(
        heads, rows, len(columns), left_out=f"Not shown: {', '.join(lost)}" if lost else ""
    )


def single_name(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ""


def plain_grids(variants: SuiteResults) -> Iterator[ScreenTable]:
    """Lay out cases that are not compared, in less and less width."""
    metrics = variants.question.metrics[1:]
    others = [m for m in metrics if any(has_metric(m, each.row) for each in variants.variants)]
    for most in range(len(others), 1, -1):
        yield plain_grid(variants, others[:most])
    yield (grid := plain_grid(variants, others[:1]))
    yield without_intervals(grid)


def plain_grid(variants: SuiteResults, others: Sequence[Metric]) -> ScreenTable:
    """Lay out a row per problem, one column's values side by side, and other metrics."""
    question = variants.question
    across = question.panel_column if question.panel_column in variants.problem_columns else ""
    columns = [name for name in columns_of_problem(variants) if name != across]
    by_row: dict[tuple[Any, ...], list[Variant]] = {}
    for variant in variants.variants:
        key = (*(str(variant.row[name]) for name in columns), "" if across else variant.name)
        by_row.setdefault(key, []).append(variant)
    values = list(dict.fromkeys(each.row[across] for each in variants.variants)) if across else [""]
    has_names = not across and len(variants.names) > 1
    heads = [("", name) for name in columns] + [("", "")] * has_names
    num_words = len(heads)
    time = time_metric(variants)
    for value in values:
        heads += [
            (variants.format_value(across, value) if across else "", f"[{time.unit}]"),
            ("", ""),
        ]
    heads += heads_of(others)
    rows = []
    for own in by_row.values():
        cells = problem_cells(variants, own[0].row, columns) + [own[0].name] * has_names
        for value in values:
            here = [each.row for each in own if not across or each.row[across] == value]
            cells += (
                [format_metric_value(time, here[0]), range_cell(time, here[0])]
                if here
                else ["", ""]
            )
        for metric in others:
            having = [variant.row for variant in own if has_metric(metric, variant.row)]
            cells.append(format_metric_value(metric, having[-1]) if having else "")
        rows.append(cells)
    return ScreenTable(heads, rows, num_words)


def without_intervals(grid: ScreenTable) -> ScreenTable:
    """Leave out the columns of intervals, which have no head."""
    keep = [i for i, head in enumerate(grid.headers) if i < grid.num_words or head != ("", "")]
    rows = [[row[i] for i in keep] for row in grid.rows]
    return replace(grid, headers=[grid.headers[i] for i in keep], rows=rows)


def columns_of_problem(variants: SuiteResults) -> list[str]:
    first = [name for name in variants.question.problem if name in variants.problem_columns]
    return first + [name for name in variants.problem_columns if name not in first]


def problem_cells(variants: SuiteResults, row: Row, columns: Sequence[str]) -> list[str]:
    return [
        "" if pd.isna(row[name]) else variants.format_value(name, row[name]) for name in columns
    ]


def range_cell(metric: Metric, row: Row) -> str:
    found = interval_of(metric.column, row)
    if not found or found[0] == found[1]:
        return ""
    low, high, value = (metric.scale * number for number in (*found, float(row[metric.column])))
    text = "–".join(format_bounds(low, high, max(half_width(low, high), abs(value) / 100), value))
    return f"[{text}]" if has_interval(metric.column, row) else text


def speedup_cells(variant: Variant, starred: Container[str] = ()) -> list[str]:
    """Return a speedup, with a star where none is ahead of it, and its ends; a baseline has 1."""
    speedup = variant.speedup
    if not speedup:
        text, known = "1" if variant.is_baseline else "", ""
    else:
        half = known_half_width(speedup)
        text = format_number(speedup.value, half)
        known = (
            "–".join(format_bounds(*speedup.interval_or_range, half, speedup.value))
            if speedup.interval_or_range
            else ""
        )
        known = f"[{known}]" if speedup.is_interval else known
    return [f"{text} *" if text and variant.name in starred else text, known]


# Numbers, in the digits that are known


def known_half_width(speedup: Speedup) -> float:
    """Return the half width that a speedup's digits follow, one percent of it at least."""
    if not speedup.interval_or_range:
        return 0.01 * speedup.value
    return max(half_width(*speedup.interval_or_range), 0.01 * speedup.value)


def format_speedup(speedup: Speedup) -> str:
    """Format "1.43 × as fast as gloo", with the digits that its ends leave."""
    ratio = format_number(speedup.value, known_half_width(speedup))
    return f"{ratio} × as fast as {speedup.reference.name}".rstrip()


def time_metric(variants: SuiteResults) -> Metric:
    """Return what a table of variants shows of every case, whichever cases the answer is of."""
    return replace(variants.question.metrics[0], row_filter={}, scale_end="")


def metrics_of(variants: SuiteResults) -> list[Metric]:
    """Return the time, and of the other metrics the first that is known."""
    rows = [variant.row for variant in variants.variants]
    others = (m for m in variants.question.metrics[1:] if any(has_metric(m, row) for row in rows))
    return [time_metric(variants), *islice(others, 1)]


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
    """Format a metric with its unit and, of a share, what it is of; "" where a row has none."""
    text = format_metric_value(metric, row)
    if not text:
        return ""
    if metric.unit != "%":
        return " ".join(filter(None, (metric.head, text, metric.unit)))
    peak = float(row.get(metric.peak_column, math.nan))
    of = "" if math.isnan(peak) else f" of {format_number(peak, peak / 10)} TFLOP/s"
    return f"{text} % {metric.head}{of}"


def is_beyond_ideal(metric: Metric, row: Row) -> bool:
    """Return whether a share is above 100 % on a doubtful row, which says why."""
    is_share = metric.unit == "%" and has_metric(metric, row)
    return is_share and row[metric.column] * metric.scale > 100 and not pd.isna(row.get("doubt"))


def has_interval(column: str, row: Row) -> bool:
    return column in INTERVALS and not pd.isna(row.get(INTERVALS[column][0]))


def interval_of(column: str, row: Row) -> tuple[float, float] | None:
    """Return the interval of a figure or, without one, its range; None without either."""
    names = INTERVALS.get(column, ())
    for low, high in (names[:2], names[2:]) if names else ():
        if not pd.isna(row.get(low)):
            return row[low], row[high]
    return None
