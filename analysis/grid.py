"""The table of the first screen: what is compared in rows and columns of text that fit a width.

Sides stand across, or works, or each work beside its best side; the layouts are tried from the
widest one to the narrowest.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pandas as pd

from analysis.records.figures import Row
from analysis.sides import Ratio, Side, Sides, cost, fastest, stars
from analysis.text import figure, half_width, render_table
from benchkit.api.question import Merit

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
    """Lay out what is compared: sides across, works across, or one row per work with its best."""
    if not any(side.ratio for side in sides.sides):
        grids = list(plain_grids(sides))
    elif len(sides.names) <= MOST_ACROSS and len(sides.by_work()) > 1:
        grids = list(sides_across(sides))
    else:
        has_room = GAP * len(sides.by_work()) < WIDTH
        grids = [*(works_across(sides) if has_room else []), best_of_each(sides)]
    return next((grid for grid in grids if grid.width <= WIDTH), grids[-1])


def sides_across(sides: Sides) -> Iterator[Grid]:
    """Lay out a row per work, in less and less width."""
    for merits in (merits_of(sides)[1:], []):
        grid = grid_of_sides(sides, sides.names, merits)
        yield grid
    yield without_ends(grid)


def grid_of_sides(sides: Sides, names: Sequence[str], merits: Sequence[Merit]) -> Grid:
    """Lay out time and ratio of every side, and other merits of the last one that has a ratio."""
    merit = time_merit(sides)
    columns = columns_of_work(sides)
    heads = [("", name) for name in columns]
    compared = {side.name for side in sides.sides if side.ratio}
    shown_last = [name for name in names if name in compared][-1]
    for name in names:
        heads += [(name, f"[{merit.unit}]")]
        heads += [("", "ratio"), ("", "")] if name in compared else []
        if name == shown_last:
            heads += [(merit.head, f"[{merit.unit}]") for merit in merits]
    rows = []
    for own in sides.by_work().values():
        by_name = {side.name: side for side in own}
        starred = stars(own)
        cells = work_cells(sides, own[0].row)
        for name in names:
            side = by_name.get(name)
            cells.append(number(merit, side.row) if side else "")
            if name in compared:
                cells += [ratio_cell(side, starred) if side else "", ratio_ends_cell(side)]
            if name == shown_last:
                cells += [number(merit, side.row) if side else "" for merit in merits]
        rows.append(cells)
    return Grid(heads, rows, len(columns))


def works_across(sides: Sides) -> Iterator[Grid]:
    """Lay out a row per side, the fastest at the end of the scale first, in less and less width."""
    merits = merits_of(sides)
    last = {side.name: cost(side) for side in sides.sides if not side.is_base}
    first, *others = sides.names
    names = [first, *sorted(others, key=lambda name: last.get(name, 0.0))]
    for most in range(len(merits), -1, -1):
        yield (grid := grid_of_works(sides, names, merits[:most]))
        yield without_ends(grid)


def grid_of_works(sides: Sides, names: Sequence[str], merits: Sequence[Merit]) -> Grid:
    """Lay out merits of every side and its ratio; without merits the base alone has its time."""
    time, base = time_merit(sides), names[0]
    heads = [("", "" if merits else f"× as fast as {base}")]
    rows = [[name] if merits or name != base else [f"{base} [{time.unit}]"] for name in names]
    for own in sides.by_work().values():
        title, *more = [*filter(None, work_cells(sides, own[0].row)), ""]
        if merits:
            heads += [(" ".join((title, *more)).strip(), f"[{time.unit}]"), ("", "")]
            heads += [("", "ratio"), ("", "")]
        else:
            heads += [(title, " ".join(more).strip())]
        heads += [(merit.head, f"[{merit.unit}]") for merit in merits[1:]]
        starred = stars(own)
        by_name = {side.name: side for side in own}
        for name, cells in zip(names, rows, strict=True):
            side = by_name.get(name)
            if merits:
                cells += [number(time, side.row), range_cell(side.row)] if side else ["", ""]
                cells += [ratio_cell(side, starred) if side else "", ratio_ends_cell(side)]
            elif name == base:
                cells.append(number(time, side.row) if side else "")
            else:
                cells.append(ratio_cell(side, starred) if side else "")
            cells += [number(merit, side.row) if side else "" for merit in merits[1:]]
    return Grid(heads, rows, 1, is_ranked=True)


def best_of_each(sides: Sides) -> Grid:
    """Lay out a row per work: the base beside the side that the answer is about, or the best."""
    merit, columns = time_merit(sides), columns_of_work(sides)
    bases, tops = [], []
    for own in sides.by_work().values():
        bases.append(next((side for side in own if side.is_base), None))
        mains = [side for side in own if side.is_main]
        tops.append(fastest(mains or [side for side in own if not side.is_bound] or own))
    base, top = ({side.name for side in column if side} for column in (bases, tops))
    heads = [("", name) for name in columns] + [(only(base), f"[{merit.unit}]")]
    heads += [(only(top), f"[{merit.unit}]"), ("", "ratio"), ("", "")]
    heads += [("best", "")] * (len(top) > 1)
    rows = []
    for first, best_one in zip(bases, tops, strict=True):
        cells = [number(merit, first.row) if first else "", number(merit, best_one.row)]
        cells += [ratio_cell(best_one), ratio_ends_cell(best_one)]
        cells += [best_one.name] * (len(top) > 1)
        rows.append(work_cells(sides, best_one.row) + cells)
    return without_ends(Grid(heads, rows, len(columns)))


def only(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ""


def plain_grids(sides: Sides) -> Iterator[Grid]:
    """Lay out cases that do not compete, in less and less width."""
    others = sides.question.merits[1:]
    others = tuple(m for m in others if any(has(m, side.row) for side in sides.sides))
    for most in range(len(others), min(len(others), 1) - 1, -1):
        yield (grid := plain_grid(sides, others[:most]))
    yield without_ends(grid)


def plain_grid(sides: Sides, others: Sequence[Merit]) -> Grid:
    """Lay out a row per work, one column's values side by side, and other merits."""
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
    heads += [(merit.head, f"[{merit.unit}]") for merit in others]
    rows = []
    for own in by_row.values():
        cells = work_cells(sides, own[0].row, columns) + [own[0].name] * has_names
        for value in values:
            here = [side.row for side in own if not across or side.row[across] == value]
            cells += [number(time, here[0]), range_cell(here[0])] if here else ["", ""]
        for merit in others:
            having = [side.row for side in own if has(merit, side.row)]
            cells.append(number(merit, having[-1]) if having else "")
        rows.append(cells)
    return Grid(heads, rows, num_words)


def without_ends(grid: Grid) -> Grid:
    """Leave out the columns of ends, which have no head, where a grid is too wide."""
    if grid.width <= WIDTH:
        return grid
    keep = [i for i, head in enumerate(grid.heads) if i < grid.num_words or head != ("", "")]
    rows = [[row[i] for i in keep] for row in grid.rows]
    return Grid([grid.heads[i] for i in keep], rows, grid.num_words)


def columns_of_work(sides: Sides) -> list[str]:
    first = [name for name in sides.question.work if name in sides.work]
    return first + [name for name in sides.work if name not in first]


def work_cells(sides: Sides, row: Row, columns: Sequence[str] | None = None) -> list[str]:
    if columns is None:
        columns = columns_of_work(sides)
    return ["" if pd.isna(row[name]) else sides.word(name, row[name]) for name in columns]


def range_cell(row: Row) -> str:
    low, high = ends_of_time(row)
    if low == high:
        return ""
    half = 1e3 * half_width(low, high)
    return ends_cell(1e3 * low, 1e3 * high, half, is_interval=not pd.isna(row["ci_low_s"]))


def ratio_cell(side: Side, starred: Iterable[str] = ()) -> str:
    if side.ratio is None:
        text = "1" if side.is_base else ""
    else:
        text = figure(side.ratio.value, half_of(side.ratio))
    return f"{text}{' *' if text and side.name in starred else ''}"


def ratio_ends_cell(side: Side | None) -> str:
    ratio = side.ratio if side else None
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    return ends_cell(ratio.low, ratio.high, half_of(ratio), ratio.is_interval)


def ends_cell(low: float, high: float, half: float, is_interval: bool) -> str:
    """Write "1.1–1.3", an interval in brackets, with the digits that a half width leaves."""
    ends = f"{figure(low, half)}–{figure(high, half)}"
    return f"[{ends}]" if is_interval else ends


# Numbers, in the digits that are known


def half_of(ratio: Ratio) -> float:
    """Return the half width that a ratio's digits follow, half a percent of it at least."""
    if ratio.low is None or ratio.high is None:
        return 0.01 * ratio.value
    return max(half_width(ratio.low, ratio.high), 0.005 * ratio.value)


def times(side: Side) -> str:
    """Format "1.43 × as fast as", with the digits that its ends leave."""
    assert side.ratio is not None
    return f"{figure(side.ratio.value, half_of(side.ratio))} × as fast as"


def time_merit(sides: Sides) -> Merit:
    """Return what a table of a contest shows of every case, whichever cases the answer is of."""
    return replace(sides.question.merits[0], only={}, at="")


def merits_of(sides: Sides) -> list[Merit]:
    """Return the time, and of the other metrics the first that is known."""
    others = (m for m in sides.question.merits[1:] if any(has(m, each.row) for each in sides.sides))
    return [time_merit(sides), *islice(others, 1)]


def has(merit: Merit, row: Row) -> bool:
    return not pd.isna(row.get(merit.column)) and all(
        str(row.get(name)) == str(value) for name, value in merit.only.items()
    )


def number(merit: Merit, row: Row) -> str:
    """Format a merit with three digits: a ratio is the quotient of the times beside it."""
    if not has(merit, row):
        return ""
    value = merit.scale * float(row[merit.column])
    text = figure(value, abs(value) / 100)
    return f"{float(text):,.0f}" if abs(value) >= 1e4 else text


def shown(merit: Merit, row: Row) -> str:
    """Format a merit with its unit, and the digits that its spread leaves; "" for none."""
    text = number(merit, row)
    if not text:
        return ""
    if merit.unit != "%":
        return " ".join(filter(None, (merit.head, text, merit.unit)))
    peak = float(row.get(merit.of, math.nan))
    of = "" if math.isnan(peak) else f" of {figure(peak, peak / 10)} TFLOP/s"
    return f"{text} % {merit.head}{of}"


def is_beyond_ideal(merit: Merit, row: Row) -> bool:
    """Return whether a share is above 100 % on a doubtful row, which says why."""
    is_share = merit.unit == "%" and has(merit, row)
    return is_share and row[merit.column] * merit.scale > 100 and not pd.isna(row.get("doubt"))


def ends_of_time(row: Row) -> tuple[float, float]:
    """Return the ends of a median's interval or, without one, of its range."""
    for low, high in (("ci_low_s", "ci_high_s"), ("range_low_s", "range_high_s")):
        if not pd.isna(row.get(low)):
            return row[low], row[high]
    return row["median_s"], row["median_s"]
