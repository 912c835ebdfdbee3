"""The table of the first screen: what is compared in rows and columns of text that fit a width.

Sides stand across, or works, or each work beside its best side; the layouts are tried from the
widest one to the narrowest.
"""

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pandas as pd

from analysis.records.figures import Row
from analysis.sides import Ratio, Side, Sides, cost, fastest, stars
from analysis.text import figure, half_width, render_table
from benchkit.api.question import Metric

WIDTH = 80
MOST_ACROSS = 3
"""Sides, or works, that stand side by side."""
GAP = 2
"""Letters between columns."""


@dataclass
class Grid:
    """A table of text: words at the left, numbers at the right.

    Attributes:
        heads: of each column, in two lines.
        rows: a cell per column.
        num_words: columns of words, which come first.
        is_ranked: whether the last rows say the least.
    """

    heads: list[tuple[str, str]]
    rows: list[list[str]]
    num_words: int
    is_ranked: bool = False

    def lines(self, most: int = 0) -> list[str]:
        """Return the heads and the rows; of too many rows the first ones, and the last ones."""
        left = len(self.rows) - most + 1 if 0 < most < len(self.rows) else 0
        cut = most - 1 if self.is_ranked else (most - 1) // 2
        shown = [*self.rows[:cut], *self.rows[cut + left :]]
        columns = list(zip(*([*map(list, zip(*self.heads, strict=True)), *shown]), strict=True))
        used = [column for column in range(len(columns)) if any(columns[column])]
        widths = {place: max(map(len, columns[place])) for place in used}
        found = []
        for cells in zip(*(columns[place] for place in used), strict=True):
            padded = (
                cell.ljust(widths[place]) if place < self.num_words else cell.rjust(widths[place])
                for place, cell in zip(used, cells, strict=True)
            )
            found.append((" " * GAP).join(padded).rstrip())
        found[2 + cut : 2 + cut] = [f"… {left} more: combined.csv has all"] * bool(left)
        return [line for number, line in enumerate(found) if line or number > 1]

    def markdown(self) -> str:
        """Return the whole table in Markdown, with a head of one line."""
        heads = [" ".join(filter(None, head)) for head in self.heads]
        return render_table(
            pd.DataFrame(self.rows, columns=range(len(heads))).set_axis(heads, axis=1), "github"
        )

    @property
    def width(self) -> int:
        return max(map(len, self.lines()), default=0)


def grid_of(sides: Sides) -> Grid:
    """Lay out what is compared in the first layout that fits, or in the narrowest one."""
    for grid in layouts(sides):
        if grid.width <= WIDTH:
            break
    return grid


def layouts(sides: Sides) -> Iterator[Grid]:
    """Yield sides across, works across, or one row per work with its best, the widest first."""
    if not any(side.ratio for side in sides.sides):
        yield from plain_grids(sides)
    elif len(sides.names) <= MOST_ACROSS and len(sides.by_work()) > 1:
        yield from sides_across(sides)
    else:
        if GAP * len(sides.by_work()) < WIDTH:
            yield from works_across(sides)
        yield (grid := best_of_each(sides))
        yield without_ends(grid)


def sides_across(sides: Sides) -> Iterator[Grid]:
    """Lay out a row per work, with other metrics, without, and without ends."""
    if metrics := merits_of(sides)[1:]:
        yield grid_of_sides(sides, metrics)
    yield (grid := grid_of_sides(sides, []))
    yield without_ends(grid)


def grid_of_sides(sides: Sides, metrics: Sequence[Metric]) -> Grid:
    """Lay out time and ratio of every side, and other metrics of the last one that has a ratio."""
    time, columns = time_merit(sides), columns_of_work(sides)
    compared = {side.name for side in sides.sides if side.ratio}
    shown_last = [name for name in sides.names if name in compared][-1]
    heads = [("", name) for name in columns]
    for name in sides.names:
        heads.append((name, f"[{time.unit}]"))
        heads += [("", "ratio"), ("", "")] if name in compared else []
        heads += heads_of(metrics) if name == shown_last else []
    rows = []
    for own in sides.by_work().values():
        by_name = {side.name: side for side in own}
        starred = stars(own)
        cells = work_cells(sides, own[0].row, columns)
        for name in sides.names:
            more = metrics if name == shown_last else []
            if side := by_name.get(name):
                cells.append(number(time, side.row))
                cells += ratio_cells(side, starred) if name in compared else []
                cells += [number(metric, side.row) for metric in more]
            else:
                cells += [""] * (1 + 2 * (name in compared) + len(more))
        rows.append(cells)
    return Grid(heads, rows, len(columns))


def works_across(sides: Sides) -> Iterator[Grid]:
    """Lay out a row per side, the fastest at the end of the scale first, in less and less width."""
    time, *others = merits_of(sides)
    last = {side.name: cost(side) for side in sides.sides if not side.is_base}
    first, *compared = sides.names
    names = [first, *sorted(compared, key=lambda name: last.get(name, 0.0))]
    for metrics in [others, []] if others else [[]]:
        yield (grid := grid_of_works(sides, names, [time, *metrics]))
        yield without_ends(grid)
    yield ratios_of_works(sides, names)


def grid_of_works(sides: Sides, names: Sequence[str], metrics: Sequence[Metric]) -> Grid:
    """Lay out time, ratio and other metrics of every side in every work."""
    time, *others = metrics
    heads, rows = [("", "")], [[name] for name in names]
    for own in sides.by_work().values():
        title = " ".join(filter(None, work_cells(sides, own[0].row, columns_of_work(sides))))
        heads += [(title, f"[{time.unit}]"), ("", ""), ("", "ratio"), ("", ""), *heads_of(others)]
        by_name, starred = {side.name: side for side in own}, stars(own)
        for name, cells in zip(names, rows, strict=True):
            if side := by_name.get(name):
                cells += [number(time, side.row), range_cell(side.row)]
                cells += ratio_cells(side, starred)
                cells += [number(metric, side.row) for metric in others]
            else:
                cells += [""] * (4 + len(others))
    return Grid(heads, rows, 1, is_ranked=True)


def ratios_of_works(sides: Sides, names: Sequence[str]) -> Grid:
    """Lay out the time of the base in every work, and the ratios of the other sides to it."""
    time, base = time_merit(sides), names[0]
    heads, rows = [("", f"× as fast as {base}")], [[name] for name in names]
    rows[0] = [f"{base} [{time.unit}]"]
    for own in sides.by_work().values():
        words = filter(None, work_cells(sides, own[0].row, columns_of_work(sides)))
        title, *more = [*words, ""]
        heads.append((title, " ".join(more).strip()))
        by_name, starred = {side.name: side for side in own}, stars(own)
        for name, cells in zip(names, rows, strict=True):
            side = by_name.get(name)
            if name == base:
                cells.append(number(time, side.row) if side else "")
            else:
                cells.append(ratio_cells(side, starred)[0] if side else "")
    return Grid(heads, rows, 1, is_ranked=True)


def heads_of(metrics: Sequence[Metric]) -> list[tuple[str, str]]:
    return [(metric.head, f"[{metric.unit}]") for metric in metrics]


def best_of_each(sides: Sides) -> Grid:
    """Lay out a row per work: the base beside the side that the answer is about, or the best."""
    metric, columns = time_merit(sides), columns_of_work(sides)
    bases, tops = [], []
    for own in sides.by_work().values():
        bases.append(next((side for side in own if side.is_base), None))
        mains = [side for side in own if side.is_main]
        tops.append(fastest(mains or [side for side in own if not side.is_bound] or own))
    base, top = ({side.name for side in column if side} for column in (bases, tops))
    heads = [("", name) for name in columns] + [(only(base), f"[{metric.unit}]")]
    heads += [(only(top), f"[{metric.unit}]"), ("", "ratio"), ("", "")]
    heads += [("best", "")] * (len(top) > 1)
    rows = []
    for first, best_one in zip(bases, tops, strict=True):
        cells = [number(metric, first.row) if first else "", number(metric, best_one.row)]
        cells += ratio_cells(best_one) + [best_one.name] * (len(top) > 1)
        rows.append(work_cells(sides, best_one.row, columns) + cells)
    return Grid(heads, rows, len(columns))


def only(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ""


def plain_grids(sides: Sides) -> Iterator[Grid]:
    """Lay out cases that do not compete, in less and less width."""
    metrics = sides.question.metrics[1:]
    others = [m for m in metrics if any(has(m, side.row) for side in sides.sides)]
    for most in range(len(others), 1, -1):
        yield plain_grid(sides, others[:most])
    yield (grid := plain_grid(sides, others[:1]))
    yield without_ends(grid)


def plain_grid(sides: Sides, others: Sequence[Metric]) -> Grid:
    """Lay out a row per work, one column's values side by side, and other metrics."""
    question = sides.question
    across = question.across if question.across in sides.work else ""
    columns = [name for name in columns_of_work(sides) if name != across]
    by_row: dict[tuple[Any, ...], list[Side]] = {}
    for side in sides.sides:
        key = (*(str(side.row[name]) for name in columns), "" if across else side.name)
        by_row.setdefault(key, []).append(side)
    values = list(dict.fromkeys(side.row[across] for side in sides.sides)) if across else [None]
    has_names = not across and len(sides.names) > 1
    heads = [("", name) for name in columns] + [("", "")] * has_names
    num_words = len(heads)
    time = time_merit(sides)
    for value in values:
        heads += [(sides.word(across, value) if across else "", f"[{time.unit}]"), ("", "")]
    heads += heads_of(others)
    rows = []
    for own in by_row.values():
        cells = work_cells(sides, own[0].row, columns) + [own[0].name] * has_names
        for value in values:
            here = [side.row for side in own if not across or side.row[across] == value]
            cells += [number(time, here[0]), range_cell(here[0])] if here else ["", ""]
        for metric in others:
            having = [side.row for side in own if has(metric, side.row)]
            cells.append(number(metric, having[-1]) if having else "")
        rows.append(cells)
    return Grid(heads, rows, num_words)


def without_ends(grid: Grid) -> Grid:
    """Leave out the columns of ends, which have no head."""
    keep = [i for i, head in enumerate(grid.heads) if i < grid.num_words or head != ("", "")]
    rows = [[row[i] for i in keep] for row in grid.rows]
    return replace(grid, heads=[grid.heads[i] for i in keep], rows=rows)


def columns_of_work(sides: Sides) -> list[str]:
    first = [name for name in sides.question.problem if name in sides.work]
    return first + [name for name in sides.work if name not in first]


def work_cells(sides: Sides, row: Row, columns: Sequence[str]) -> list[str]:
    return ["" if pd.isna(row[name]) else sides.word(name, row[name]) for name in columns]


def range_cell(row: Row) -> str:
    low, high = ends_of_time(row)
    if low == high:
        return ""
    half = 1e3 * half_width(low, high)
    return ends_cell(1e3 * low, 1e3 * high, half, is_interval=not pd.isna(row["ci_low_s"]))


def ratio_cells(side: Side, starred: Container[str] = ()) -> list[str]:
    """Return a ratio, with a star where the side leads, and its ends; a base has 1."""
    ratio = side.ratio
    if not ratio:
        text, ends = "1" if side.is_base else "", ""
    else:
        half = half_of(ratio)
        text = figure(ratio.value, half)
        ends = ends_cell(*ratio.ends, half, ratio.is_interval) if ratio.ends else ""
    return [f"{text} *" if text and side.name in starred else text, ends]


def ends_cell(low: float, high: float, half: float, is_interval: bool) -> str:
    """Write "1.1–1.3", an interval in brackets, with the digits that a half width leaves."""
    ends = f"{figure(low, half)}–{figure(high, half)}"
    return f"[{ends}]" if is_interval else ends


# Numbers, in the digits that are known


def half_of(ratio: Ratio) -> float:
    """Return the half width that a ratio's digits follow, half a percent of it at least."""
    if not ratio.ends:
        return 0.01 * ratio.value
    return max(half_width(*ratio.ends), 0.005 * ratio.value)


def times(side: Side) -> str:
    """Format "1.43 × as fast as", with the digits that its ends leave."""
    assert side.ratio is not None
    return f"{figure(side.ratio.value, half_of(side.ratio))} × as fast as"


def time_merit(sides: Sides) -> Metric:
    """Return what a table of a contest shows of every case, whichever cases the answer is of."""
    return replace(sides.question.metrics[0], only={}, at="")


def merits_of(sides: Sides) -> list[Metric]:
    """Return the time, and of the other metrics the first that is known."""
    others = (
        m for m in sides.question.metrics[1:] if any(has(m, each.row) for each in sides.sides)
    )
    return [time_merit(sides), *islice(others, 1)]


def has(metric: Metric, row: Row) -> bool:
    return not pd.isna(row.get(metric.column)) and all(
        str(row.get(name)) == str(value) for name, value in metric.only.items()
    )


def number(metric: Metric, row: Row) -> str:
    """Format a metric with three digits: a ratio is the quotient of the times beside it."""
    if not has(metric, row):
        return ""
    value = metric.scale * float(row[metric.column])
    text = figure(value, abs(value) / 100)
    return f"{float(text):,.0f}" if abs(value) >= 1e4 else text


def shown(metric: Metric, row: Row) -> str:
    """Format a metric with its unit and, of a share, what it is of; "" where a row has none."""
    text = number(metric, row)
    if not text:
        return ""
    if metric.unit != "%":
        return " ".join(filter(None, (metric.head, text, metric.unit)))
    peak = float(row.get(metric.of, math.nan))
    of = "" if math.isnan(peak) else f" of {figure(peak, peak / 10)} TFLOP/s"
    return f"{text} % {metric.head}{of}"


def is_beyond_ideal(metric: Metric, row: Row) -> bool:
    """Return whether a share is above 100 % on a doubtful row, which says why."""
    is_share = metric.unit == "%" and has(metric, row)
    return is_share and row[metric.column] * metric.scale > 100 and not pd.isna(row.get("doubt"))


def ends_of_time(row: Row) -> tuple[float, float]:
    """Return the ends of a median's interval or, without one, of its range."""
    for low, high in (("ci_low_s", "ci_high_s"), ("range_low_s", "range_high_s")):
        if not pd.isna(row.get(low)):
            return row[low], row[high]
    return row["median_s"], row["median_s"]
