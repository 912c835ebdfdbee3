"""The first screen: the answer, the table it rests on, how sure it is, what spoils it, what next.

It fits 24 lines of 80 columns, and stands at the end of a sweep, above every report, and in front
of the page. What does not fit is in combined.csv.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from statistics import median
from textwrap import shorten, wrap
from typing import Any

import pandas as pd

from analysis.discover import conclusions, or_left_out
from analysis.records.figures import Row
from analysis.sides import APART, Baseline, Ratio, Side, Sides, all_sides
from analysis.table import crowded
from analysis.text import figure, half_width, render_table, shortened
from benchkit.api.question import LEAST, Merit, Question
from benchkit.record.record import HARMLESS
from benchkit.statistics.compare import percent

WIDTH, LINES = 80, 24
MOST_ANSWERS, MOST_ENDS, MOST_SPOILS = 4, 8, 3
MOST_REASONS = 5
LEAST_ROWS = 4
"""Of the table that are shown whatever was not measured, which has MOST_ENDS lines at least."""
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
    """

    heads: list[tuple[str, str]]
    rows: list[list[str]]
    num_words: int

    def lines(self, most: int = 0) -> list[str]:
        shown = self.rows[: most or None]
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


@dataclass
class Screen:
    """What a reader should know first.

    Attributes:
        subject: what competes in; "" where the answers say it themselves.
        answers: one to four lines.
        ends: what was not measured, a line per reason.
        grid: of what is compared; None where several suites answer.
        sure: how sure the answer is.
        spoils: what spoils it, the worst first.
        further: what one may ask next.
    """

    subject: str = ""
    answers: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    grid: Grid | None = None
    sure: list[str] = field(default_factory=list)
    spoils: list[str] = field(default_factory=list)
    further: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """The first answer up to its first semicolon; `answers` has the rest of it."""
        return self.answers[0].partition("; ")[0] if self.answers else "Nothing was measured"

    def text(self, width: int = WIDTH) -> str:
        head = folded(filter(None, [self.subject, *self.answers]), width)
        foot = folded([*self.sure, *self.spoils, *self.further], width)
        rows = self.grid.rows if self.grid else []
        room = LINES - len(head) - len(foot) - 3  # two empty lines, and one to spare
        of_grid = min(len(rows), LEAST_ROWS) + 2 if rows else 0
        ends = [shorten(line, width, placeholder=" …") for line in self.ends]
        if len(ends) > (shown := max(MOST_ENDS, room - of_grid)):
            ends = [*ends[: shown - 1], "and more that was not measured: combined.csv has all"]
        parts = [head + ends, foot]
        if self.grid and rows:
            room = max(LEAST_ROWS, room - len(ends) - 2)
            left = len(rows) - room
            more = [f"{left + 1} more: combined.csv has all"] if left > 0 else []
            parts.insert(1, self.grid.lines(room - len(more) if more else 0) + more)
        return "\n\n".join("\n".join(part) for part in parts if part)


def folded(lines: Iterable[str], width: int) -> list[str]:
    return [part for line in lines for part in wrap(line, width, subsequent_indent="  ")]


def screen_of(
    table: pd.DataFrame, baseline: Baseline | None = None, further: Sequence[str] = ()
) -> Screen:
    """Answer what the records of a table were measured for.

    Args:
        baseline: what to compare with, in place of the suites' own contests.
        further: what to type next, whatever the suites are.
    """
    found, concluded = Screen(), set[str]()
    for module in conclusions():
        if table["suite"].isin(module.CONCLUDED).any():
            conclude = partial(list[str], module.conclude(table))
            lines = or_left_out(f"conclusion of {module.__name__}", conclude)
            found.answers += lines or []
            concluded |= set(module.CONCLUDED)
    suites = list(all_sides(table[~table["suite"].isin(concluded)], baseline))
    for suite, sides in suites:
        if sides.sides:
            found.answers += list(answers_of(sides))[: MOST_ANSWERS if len(suites) == 1 else 2]
        else:
            found.answers.append(f"{suite}: nothing was measured")
    found.ends = list(ends_of(table))
    if len(suites) == 1 and not concluded and suites[0][1].sides:
        [(_, sides)] = suites
        found.grid = grid_of(sides)
        found.sure = [how_sure(sides)]
        found.further = further_of(sides)
        found.subject = subject_of(sides) if any(side.ratio for side in sides.sides) else ""
    elif len(suites) > 1:
        names = ", ".join(name for name, _ in suites)
        found.further = [f"One suite's table: --where 'suite == \"{suites[0][0]}\"' (of {names})"]
    found.spoils = list(spoils_of(table))
    found.further += further
    return found


def further_of(sides: Sides) -> list[str]:
    """Return what the suite suggests, "More ranks: world_size=2,4", unless that key is swept."""
    text = sides.question.further
    key = text.partition(": ")[2].partition("=")[0]
    return [text] if text and key not in sides.work else []


def subject_of(sides: Sides) -> str:
    """Say what all sides of a contest share: "ring_attention, gloo, 2 ranks, AMD EPYC"."""
    rows = [side.row for side in sides.sides]
    words = [title_of(rows[0])]
    for name in ("backend", "world_size", "dtype", "device_name"):
        values = {row.get(name) for row in rows}
        if len(values) == 1 and not pd.isna(value := values.pop()):
            words.append(sides.word(name, value))
    return ", ".join(words)


def title_of(row: Row) -> str:
    return str(row["suite"] if pd.isna(row["title"]) else row["title"])


# The answer


def answers_of(sides: Sides) -> Iterator[str]:
    """Yield the answer to a suite's question, one line per kind of work."""
    beyond = {id(side) for side in sides.sides if sides.is_beyond_cores(side)}
    competing = [side for side in sides.sides if not (side.is_bound or id(side) in beyond)]
    with_ratio = [side for side in competing if side.ratio]
    if not with_ratio:
        yield from plain_answers(sides)
    else:
        yield from contest_answers(sides, competing, with_ratio)
    if beyond:
        cases = "1 case is" if len(beyond) == 1 else f"{len(beyond)} cases are"
        yield f"{cases} left out of this: more ranks than cores, which take turns"


def contest_answers(
    sides: Sides, competing: Sequence[Side], with_ratio: Sequence[Side]
) -> Iterator[str]:
    main = [side for side in with_ratio if side.is_main] or with_ratio
    names = {side.name for side in main}
    base = next(side.name for side in sides.sides if side.is_base)
    kinds = kind_column(sides)
    for kind, own in grouped(main, kinds):
        where = f", {sides.word(kinds, kind)}" if kinds else ""
        if len(names) == 1:
            yield duel(sides, own, base, where)
        else:
            rivals = [side for side in competing if not kinds or side.row[kinds] == kind]
            yield best(sides, rivals, base, where)


def kind_column(sides: Sides, without: str = "") -> str:
    """Return a column of the work with two or three words, each of which has its own answer."""
    for name in (name for name in sides.work if name != without):
        values = {side.row[name] for side in sides.sides}
        are_words = all(isinstance(value, str) for value in values)
        if are_words and name not in sides.question.scale and len(values) <= MOST_ACROSS:
            return name
    return ""


def grouped(sides: Sequence[Side], column: str) -> Iterator[tuple[Any, list[Side]]]:
    found: dict[Any, list[Side]] = {}
    for side in sides:
        found.setdefault(side.row[column] if column else "", []).append(side)
    yield from found.items()


def duel(sides: Sides, own: Sequence[Side], base: str, where: str) -> str:
    """Say how one side does: "2 devices: 1.43 × 1 device (1.11 to 1.49 in 3 cases)"."""
    ratios = [side.ratio.value for side in own if side.ratio]
    name = own[0].name
    if len(ratios) == 1:
        [side] = own
        extra = f": {shown(time_merit(sides), side.row)}"
        return f"{name}: {times(side)} {base}{where}{known_of(side)}{extra}{claim(side, base)}"
    middle = figure(median(ratios), spread_of(ratios))
    ends = f"{figure(min(ratios), spread_of(ratios))} to {figure(max(ratios), spread_of(ratios))}"
    apart = sum(bool(side.ratio and side.ratio.is_told_apart) for side in own)
    known = sum(bool(side.ratio and side.ratio.is_interval) for side in own)
    told = f"; told apart in {apart} of {known}" if apart < known else ""
    return f"{name}: {middle} × {base}{where} ({ends} in {len(ratios)} cases{told})"


def spread_of(values: Sequence[float]) -> float:
    return max((max(values) - min(values)) / 2, 0.01 * abs(median(values)))


def times(side: Side) -> str:
    """Format "1.43 ×", with the digits that its ends leave."""
    assert side.ratio is not None
    return f"{figure(side.ratio.value, half_of(side.ratio))} ×"


def half_of(ratio: Ratio) -> float:
    """Return the half width that a ratio's digits follow, half a percent of it at least."""
    if ratio.low is None or ratio.high is None:
        return 0.01 * ratio.value
    return max(half_width(ratio.low, ratio.high), 0.005 * ratio.value)


def known_of(side: Side) -> str:
    """Format what is known of a ratio: " [1.1, 1.3]" or, of a range, " (1.1 to 1.3, 5 turns)"."""
    ratio = side.ratio
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    low, high = (figure(end, half_of(ratio)) for end in (ratio.low, ratio.high))
    return f" [{low}, {high}]" if ratio.is_interval else f" ({low} to {high}, {ratio.basis})"


def claim(side: Side, base: str) -> str:
    ratio = side.ratio
    if ratio is None or not ratio.is_interval or ratio.is_told_apart:
        return ""
    where = "in this run" if ratio.basis.endswith("turns") else f"by {ratio.basis}"
    return f"; not told apart from {base} {where}"


def best(sides: Sides, competing: Sequence[Side], base: str, where: str) -> str:
    """Say which side is the fastest at the end of the scale, and how often it is so elsewhere."""
    compared = [side for side in competing if side.ratio or side.is_base]
    winners = [fastest(own) for _, own in groupby(compared, key=lambda side: side.work)]
    last = at_end(sides, compared)
    last = [side for side in last if side.work == last[-1].work]
    first = fastest(last)
    rivals = [side.name for side in last if side is not first and not is_behind(side, first)]
    scale = scale_words(sides, first.row)
    at = f" at {', '.join(scale)}" if scale else ""
    if first.is_base:
        found = f"{base} is the fastest{where}{at}: {shown(time_merit(sides), first.row)}"
    else:
        found = f"{first.name}: {times(first)} {base}{where}{at}{known_of(first)}"
        found += f": {shown(time_merit(sides), first.row)}"
    for merit in sides.question.merits[1:2]:
        if (text := shown(merit, first.row)) and not is_beyond_ideal(merit, first.row):
            found += f"; {text}"
    if rivals:
        found += f"; not told apart from {', '.join(rivals[:2])}" + (
            f" and {len(rivals) - 2} more" if len(rivals) > 2 else ""
        )
    if len(winners) > 1:
        counts = Counter(side.name for side in winners).most_common(3)
        tally = ", ".join(f"{name} {count}" for name, count in counts)
        found += f"; best of {len(winners)} cases: {tally}"
    return found


def scale_words(sides: Sides, row: Row) -> list[str]:
    """Return where on the scale a row is, as far as that differs."""
    return [sides.word(name, row[name]) for name in sides.question.scale if name in sides.work]


def fastest(sides: Iterable[Side]) -> Side:
    return min(sides, key=cost)


def cost(side: Side) -> float:
    """Return what sides are ranked by: the time per useful work, where ratios count the work."""
    return -side.ratio.value if side.ratio else -1.0


def is_behind(side: Side, first: Side) -> bool:
    """Return whether a side is slower than the first one by their ratios to the same base."""
    if side.is_base:
        return bool(first.ratio and first.ratio.is_told_apart)
    ratios = [each.ratio for each in (side, first)]
    if first.is_base:
        return bool(side.ratio and side.ratio.is_told_apart)
    lower, upper = ratios
    if not (lower and upper and lower.is_interval and upper.is_interval):
        return False
    return (lower.high or math.inf) < (upper.low or 0.0)


def at_end(sides: Sides, own: Sequence[Side]) -> list[Side]:
    """Return the sides that are the furthest along the scale: by number, of words the last one."""
    found = list(own)
    for name in sides.question.scale:
        if name in sides.work and found:
            values = [side.row[name] for side in found]
            is_numeric = all(isinstance(value, int | float) for value in values)
            end = max(values) if is_numeric else values[-1]
            found = [side for side in found if side.row[name] == end]
    return found


def plain_answers(sides: Sides) -> Iterator[str]:
    """Yield what was measured where nothing competes: each merit at its end of the scale."""
    question, scale = sides.question, [n for n in sides.question.scale if n in sides.work]
    first = sides.sides[0].row
    fixed = [
        question.word(name, first[name])
        for name in question.scale
        if name in sides.shared and not pd.isna(first[name])
    ]
    backends = {str(side.row["backend"]) for side in sides.sides}
    across = question.across if question.across in sides.work else ""
    is_along = len(scale) > 1 and not across_only(question)
    apart = scale[1] if is_along else kind_column(sides, without=across)
    for group, own in grouped(sides.sides, apart):
        words = [title_of(first), *(sorted(backends) if len(backends) == 1 else ())]
        words += fixed + ([question.word(apart, group)] if apart else [])
        if across_only(question) and across:
            words += scale_words(sides, at_end(sides, own)[-1].row)
        parts = []
        for merit in question.merits:
            having = [side for side in own if has(merit, side.row)]
            if not having:
                continue
            if across and not merit.only:
                parts += list(beside(sides, merit, having, across))
                continue
            end = having[0] if merit.at == LEAST else having[-1]
            if scale and not merit.only and merit is not question.merits[0]:
                end = at_end(sides, having)[-1]
            at = f" at {sides.word(scale[0], end.row[scale[0]])}" if scale else ""
            parts.append(f"{shown(merit, end.row)}{at}")
        yield f"{', '.join(words)}: {', '.join(parts)}"


def across_only(question: Question) -> bool:
    return not any(merit.only for merit in question.merits) and bool(question.across)


def beside(sides: Sides, merit: Merit, own: Sequence[Side], across: str) -> Iterator[str]:
    """Yield a merit of each value of a column, at the end of the scale: "forward 25 ms"."""
    last = at_end(sides, own)
    if merit is not sides.question.merits[0]:
        yield shown(merit, last[-1].row)
        return
    for side in last:
        more = side.row[merit.column] / last[0].row[merit.column]
        ratio = f" ({figure(more, 0.05 * more)} ×)" if side is not last[0] else ""
        yield f"{sides.word(across, side.row[across])} {shown(merit, side.row)}{ratio}"


def has(merit: Merit, row: Row) -> bool:
    return not pd.isna(row.get(merit.column)) and all(
        str(row.get(name)) == str(value) for name, value in merit.only.items()
    )


def shown(merit: Merit, row: Row) -> str:
    """Format a merit with its unit, and the digits that its spread leaves; "" for none."""
    text = number(merit, row)
    if not text:
        return ""
    unit = f"{merit.unit} {merit.head}" if merit.unit == "%" else merit.unit
    return f"{text} {unit}".strip()


def is_beyond_ideal(merit: Merit, row: Row) -> bool:
    """Return whether a share is above 100 % on a doubtful row, which says why."""
    is_above = merit.unit == "%" and row[merit.column] * merit.scale > 100
    return is_above and not pd.isna(row.get("doubt"))


def number(merit: Merit, row: Row) -> str:
    if not has(merit, row):
        return ""
    value = float(row[merit.column])
    low, high = ends_of_time(row)
    share = max(0.005, (high - low) / 2 / row["median_s"]) if row["median_s"] else 0.005
    text = figure(merit.scale * value, merit.scale * value * share)
    return f"{float(text):,.0f}" if abs(merit.scale * value) >= 1e4 else text


def ends_of_time(row: Row) -> tuple[float, float]:
    """Return the ends of a median's interval or, without one, of its range."""
    for low, high in (("ci_low_s", "ci_high_s"), ("range_low_s", "range_high_s")):
        if not pd.isna(row.get(low)):
            return row[low], row[high]
    return row["median_s"], row["median_s"]


# The table


def grid_of(sides: Sides) -> Grid:
    """Lay out what is compared: sides across, works across, or one row per work with its best."""
    works = sides.by_work()
    names = sides.names
    if not any(side.ratio for side in sides.sides):
        return plain_grid(sides)
    if len(names) <= MOST_ACROSS:
        return sides_across(sides, names)
    if len(works) <= MOST_ACROSS:
        return works_across(sides, names)
    return best_of_each(sides)


def work_cells(sides: Sides, row: Row, columns: Sequence[str] | None = None) -> list[str]:
    if columns is None:
        columns = columns_of_work(sides)
    return ["" if pd.isna(row[name]) else sides.word(name, row[name]) for name in columns]


def columns_of_work(sides: Sides) -> list[str]:
    first = [name for name in sides.question.work if name in sides.work]
    return first + [name for name in sides.work if name not in first]


def range_cell(row: Row) -> str:
    low, high = ends_of_time(row)
    if low == high:
        return ""
    half = 1e3 * half_width(low, high)
    return ends_cell(1e3 * low, 1e3 * high, half, is_interval=not pd.isna(row["ci_low_s"]))


def ends_cell(low: float, high: float, half: float, is_interval: bool) -> str:
    """Write "1.1–1.3", an interval in brackets, with the digits that a half width leaves."""
    ends = f"{figure(low, half)}–{figure(high, half)}"
    return f"[{ends}]" if is_interval else ends


def ratio_ends_cell(side: Side | None) -> str:
    ratio = side.ratio if side else None
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    return ends_cell(ratio.low, ratio.high, half_of(ratio), ratio.is_interval)


def without_ends(grid: Grid) -> Grid:
    """Leave out the columns of ends, which have no head, where a grid is too wide."""
    if grid.width <= WIDTH:
        return grid
    keep = [i for i, head in enumerate(grid.heads) if i < grid.num_words or head != ("", "")]
    rows = [[row[i] for i in keep] for row in grid.rows]
    return Grid([grid.heads[i] for i in keep], rows, grid.num_words)


def ratio_cell(side: Side, is_best: bool) -> str:
    if side.ratio is None:
        return "1" if side.is_base else ""
    return f"{times(side).removesuffix(' ×')}{' *' if is_best else ''}"


def time_merit(sides: Sides) -> Merit:
    """Return what a table of a contest shows of every case, whichever cases the answer is of."""
    return replace(sides.question.merits[0], only={}, at="")


def sides_across(sides: Sides, names: Sequence[str]) -> Grid:
    merit = time_merit(sides)
    columns = columns_of_work(sides)
    heads = [("", name) for name in columns]
    base = names[0]
    for name in names:
        heads += [(name, f"[{merit.unit}]")]
        heads += [("", "ratio"), ("", "")] if name != base else []
    rows = []
    for own in sides.by_work().values():
        by_name = {side.name: side for side in own}
        top = fastest([side for side in own if not side.is_bound] or own)
        cells = work_cells(sides, own[0].row)
        for name in names:
            side = by_name.get(name)
            cells.append(number(merit, side.row) if side else "")
            if name != base:
                is_best = len(names) > 2 and side is top
                cells += [ratio_cell(side, is_best) if side else "", ratio_ends_cell(side)]
        rows.append(cells)
    return without_ends(Grid(heads, rows, len(columns)))


def works_across(sides: Sides, names: Sequence[str]) -> Grid:
    """Lay out a row per side, the fastest at the end of the scale first, with as much as fits."""
    works = list(sides.by_work().values())
    merits = [time_merit(sides), *sides.question.merits[1:2]]
    merits = [merit for merit in merits if any(has(merit, side.row) for side in sides.sides)]
    last = {side.name: cost(side) for own in works for side in own if not side.is_base}
    first, *others = names
    order = [first, *sorted(others, key=lambda name: last.get(name, 0.0))]
    while True:
        grid = grid_of_works(sides, works, order, merits)
        if grid.width <= WIDTH or len(works) == len(merits) == 1:
            return grid
        if len(merits) > 1:
            merits = merits[:1]
        else:
            works = works[1:]


def grid_of_works(
    sides: Sides, works: Sequence[list[Side]], names: Sequence[str], merits: Sequence[Merit]
) -> Grid:
    heads = [("", "")]
    rows = [[name] for name in names]
    for own in works:
        title = " ".join(filter(None, work_cells(sides, own[0].row)))
        heads += [(title, f"[{merits[0].unit}]"), ("", "ratio")]
        heads += [("", merit.head or f"[{merit.unit}]") for merit in merits[1:]]
        top = fastest([side for side in own if not side.is_bound] or own)
        by_name = {side.name: side for side in own}
        for cells in rows:
            side = by_name.get(cells[0])
            cells.append(number(merits[0], side.row) if side else "")
            cells.append(ratio_cell(side, side is top) if side else "")
            cells += [number(merit, side.row) if side else "" for merit in merits[1:]]
    return Grid(heads, rows, 1)


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
        cells += [ratio_cell(best_one, is_best=False), ratio_ends_cell(best_one)]
        cells += [best_one.name] * (len(top) > 1)
        rows.append(work_cells(sides, best_one.row) + cells)
    return without_ends(Grid(heads, rows, len(columns)))


def only(names: set[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ""


def plain_grid(sides: Sides) -> Grid:
    """Lay out cases that do not compete: a row per work, one column's values side by side."""
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
    others = [m for m in question.merits[1:] if any(has(m, side.row) for side in sides.sides)]
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
    return without_ends(Grid(heads, rows, num_words))


# What is known of it


def how_sure(sides: Sides) -> str:
    """Say what the ends beside times and ratios are, and what is not in them."""
    rows = [side.row for side in sides.sides]
    widths = [
        (high - low) / 2 / row["median_s"] for row in rows for low, high in [ends_of_time(row)]
    ]
    runs = max(int(row.get("num_runs", 1) or 1) for row in rows)
    of_median = sum(not pd.isna(row["ci_low_s"]) for row in rows)
    kind = "95 % intervals of the median" if of_median == len(rows) else "ranges of calls"
    if 0 < of_median < len(rows):
        kind = "95 % intervals of the median [ ], else ranges of calls"
    if runs > 1:
        kind = f"medians of {runs} runs, " + ("95 % intervals" if of_median else "ranges of runs")
    middle, most = percent(median(widths)), percent(max(widths))
    parts = [f"{kind}, ± {middle}" + (f", at most ± {most}" if most != middle else "")]
    ratios = [side.ratio for side in sides.sides if side.ratio]
    if any(ratio.is_interval for ratio in ratios):
        parts.append("ratios: 95 % in this run" if runs == 1 else "ratios: 95 % between runs")
    elif any(ratio.basis != APART for ratio in ratios):
        parts.append("ratios: ranges of turns" if runs == 1 else "ratios: ranges of runs")
    elif ratios:
        parts.append("ratios are of points that took no turns: nothing is claimed")
    if ratios and sides.companions:
        parts.append(f"the sides differ in {', '.join(sides.companions)}, too")
    if sides.merged:
        parts.append(f"taken as alike: cases that differ in {', '.join(sides.merged)}")
    if sides.is_first:
        parts.append("the side that the suite compares with is missing: the first stands in")
    floors = {row["noise_floor"] for row in rows if str(row["title"]) in str(row["noise_floor"])}
    if len(floors) == 1:
        parts.append(f"identical runs differ by {floors.pop()}")
    if runs == 1:
        parts.append("one run: repeat=6 shows what differs between runs")
    return f"How sure: {'; '.join(parts)}"


def ends_of(table: pd.DataFrame) -> Iterator[str]:
    """Yield what was not measured, failures first: a line per reason or, of many, per status."""
    failed = table[table["status"] != "ok"]
    reasons = failed["reason"].map(shortened, na_action="ignore").fillna("no reason given")
    counts = Counter(zip(failed["status"], reasons, strict=True)).most_common()
    by_status: dict[str, list[tuple[str, int]]] = {}
    for (status, reason), count in sorted(counts, key=lambda each: each[0][0] in HARMLESS):
        by_status.setdefault(status, []).append((reason, count))
    is_long = len(counts) > MOST_REASONS
    for status, found in by_status.items():
        for reason, count in found[:1] if is_long else found:
            num = sum(count for _, count in found) if is_long else count
            others = f" (and {len(found) - 1} other reasons)" if is_long and len(found) > 1 else ""
            yield f"{num} case{'s' * (num > 1)} {status}: {reason}{others}"


def spoils_of(table: pd.DataFrame) -> Iterator[str]:
    """Yield what spoils the answer, the worst first, each with what to do about it."""
    measured = table[table["status"] == "ok"]
    found = []
    if shared := sorted(set(measured.loc[crowded(measured), "world_size"])):
        ranks = ", ".join(f"{size:.0f}" for size in shared)
        found.append(f"Times of {ranks} ranks are of shared cores: more threads than cores")
    for name, what in (
        ("doubt", "doubtful"),
        ("disturbed", "disturbed"),
        ("unchecked", "unchecked"),
    ):
        counts = Counter(map(shortened, measured[name].dropna()))
        if counts:
            line, _ = counts.most_common(1)[0]
            found.append(f"{sum(counts.values())} of {len(measured)} {what}: {line}")
    warned = Counter(
        map(shortened, measured.drop_duplicates(["point_id", "run"])["warning"].dropna())
    )
    found += [f"Warning: {line}" for line, _ in warned.most_common(2)]
    yield from found[:MOST_SPOILS]
    if len(found) > MOST_SPOILS:
        yield f"and {len(found) - MOST_SPOILS} more: noise.md"
