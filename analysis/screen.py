"""The first screen: the answer, the table it rests on, how sure it is, what spoils it, what next.

It fits 24 lines of 80 columns, and stands at the end of a sweep, above every report, and in front
of the page. What does not fit is in combined.csv.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from statistics import median
from textwrap import shorten, wrap
from typing import Any

import pandas as pd

from analysis.discover import conclusions, or_left_out, summaries
from analysis.grid import (
    MOST_ACROSS,
    WIDTH,
    Grid,
    ends_of_time,
    grid_of,
    half_of,
    has,
    is_beyond_ideal,
    merits_of,
    shown,
    times,
)
from analysis.records.figures import Row
from analysis.sides import (
    APART,
    RANKS,
    Baseline,
    Ratio,
    Side,
    Sides,
    all_sides,
    cores_of,
    leaders,
    num_of,
    ranks_of,
)
from analysis.table import crowded, own_columns
from analysis.text import figure, first_line, shortened
from benchkit.api.question import LEAST, Question
from benchkit.record.record import HARMLESS
from benchkit.statistics.compare import plus_minus
from benchkit.statistics.intervals import FEWEST_QUARTILES

LINES = 24
MOST_ANSWERS, MOST_ENDS, MOST_SPOILS = 4, 8, 3
MOST_REASONS = 5
LEAST_ROWS = 4
"""Of the table that are shown whatever was not measured, which has MOST_ENDS lines at least."""
VERDICTS = FASTER, BEYOND_IDEAL, SLOWER, UNCLEAR = "faster", "beyond ideal", "slower", "unclear"
"""What the ends of a ratio leave to say, in the order of an answer."""


@dataclass
class Screen:
    """What a reader should know first.

    Attributes:
        subject: what was measured, and where; of one suite.
        answers: one to four lines.
        ends: what was not measured, a line per reason.
        grid: of what is compared; None where several suites answer.
        terms: what its words mean; on a terminal where no row makes room for that.
        sure: how sure the answer is.
        spoils: what spoils it, the worst first.
        further: what one may ask next.
    """

    subject: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    grid: Grid | None = None
    terms: list[str] = field(default_factory=list)
    sure: list[str] = field(default_factory=list)
    spoils: list[str] = field(default_factory=list)
    further: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """The first answer up to its first semicolon; `answers` has the rest of it."""
        return self.answers[0].partition("; ")[0] if self.answers else "Nothing was measured"

    def text(self, width: int = WIDTH) -> str:
        head = folded([*self.subject, *self.answers], width)
        foot = folded([*self.sure, *self.spoils, *self.further], width)
        rows = self.grid.rows if self.grid else []
        room = LINES - len(head) - len(foot) - 3  # two empty lines, and one to spare
        terms = folded(self.terms, width)
        if len(folded(self.ends, width)) + len(rows) + 2 + len(terms) <= room:
            foot, room = [*terms, *foot], room - len(terms)
        of_grid = min(len(rows), LEAST_ROWS) + 2 if rows else 0
        most = width * (2 if 2 * len(self.ends) <= MOST_ENDS else 1)
        ends = folded((shorten(line, most, placeholder=" …") for line in self.ends), width)
        if len(ends) > (shown := max(MOST_ENDS, room - of_grid)):
            ends = [*ends[: shown - 1], "and more that was not measured: combined.csv has all"]
        parts = [head + ends, foot]
        if self.grid and rows:
            parts.insert(1, self.grid.lines(max(LEAST_ROWS, room - len(ends) - 2)))
        return "\n\n".join("\n".join(part) for part in parts if part)


def folded(lines: Iterable[str], width: int) -> list[str]:
    return [part for line in lines for part in wrap(line, width, subsequent_indent="  ")]


def screen_of(
    table: pd.DataFrame, baseline: Baseline | None = None, further: Sequence[str] = ()
) -> Screen:
    """Answer what the records of a table were measured for.

    Args:
        baseline: what to compare with, in place of the suites' own comparisons.
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
    asked = suites[0][1].question if len(suites) == 1 else Question()
    found.ends = list(ends_of(table, asked))
    if len(suites) == 1 and not concluded and suites[0][1].sides:
        [(_, sides)] = suites
        found.grid = grid_of(sides)
        has_stars = any("*" in cell for cells in found.grid.rows for cell in cells)
        found.sure = [how_sure(sides, has_stars)]
        found.further = further_of(sides)
        found.subject = list(subject_of(sides))
        found.terms = terms_in(found, sides.question)
    elif len(suites) > 1:
        names = ", ".join(name for name, _ in suites)
        found.further = [f"One suite's table: --where 'suite == \"{suites[0][0]}\"' (of {names})"]
    left_out = any(sides.is_beyond_cores(side) for _, sides in suites for side in sides.sides)
    found.spoils = list(spoils_of(table, asked, left_out))
    found.further += further
    return found


def further_of(sides: Sides) -> list[str]:
    """Return what to add to the command, and what else the suite suggests."""
    varied = {*sides.work, *(sides.contest.factors if sides.contest else ())} - {*sides.shared}
    asked = [text for key, text in sides.question.next_steps.items() if key and key not in varied]
    added = [*([] if num_runs(sides) > 1 else ["repeat=6 (fresh runs)"]), *asked[:1]]
    next_one = [f"Next, add to the command: {' or '.join(added)}"] if added else []
    return [*next_one, *filter(None, [sides.question.next_steps.get("")])]


def num_runs(sides: Sides) -> int:
    return max(int(side.row.get("num_runs", 1) or 1) for side in sides.sides)


def terms_in(screen: Screen, question: Question) -> list[str]:
    """Return what the terms mean that a screen uses, in one line."""
    text = screen.text()
    used = [f"{name}: {means}" for name, means in question.terms.items() if name in text]
    return ["; ".join(used)] if used else []


def subject_of(sides: Sides) -> Iterator[str]:
    """Yield what was measured, and what all cases share: "gloo, 2 ranks, float32, AMD EPYC"."""
    row = sides.sides[0].row
    if summary := summaries().get(row["suite"], "").rstrip("."):
        yield summary
    backend = ["backend"] if row["world_size"] > 1 else []
    names = [*backend, "world_size", *sides.question.problem, "device_name"]
    if RANKS[0] in (sides.contest.factors if sides.contest else ()):
        names.remove("world_size")  # cases have some of the ranks
    held = {name: row[name] for name in names if name in sides.shared and not pd.isna(row[name])}
    words = [title_of(row), *(sides.word(name, value) for name, value in held.items() if value)]
    cores = {(cores_of(side.row), side.row["threads_per_rank"]) for side in sides.sides}
    if len(cores) == 1:
        [(num, threads)] = cores
        words.append(f"{num} cores, {threads} thread{'s' * (threads > 1)} a rank")
    yield ", ".join(dict.fromkeys(filter(None, words)))


def title_of(row: Row) -> str:
    return str(row["suite"] if pd.isna(row["title"]) else row["title"])


# The answer


def answers_of(sides: Sides) -> Iterator[str]:
    """Yield the answer to a suite's question, one line per kind of work."""
    within = [side for side in sides.sides if not sides.is_beyond_cores(side)]
    competing = [side for side in within if not side.is_bound]
    with_ratio = [side for side in competing if side.ratio]
    if not with_ratio:
        yield from plain_answers(sides, within)
    else:
        yield from contest_answers(sides, competing, with_ratio)
    if beyond := [side.row for side in sides.sides if sides.is_beyond_cores(side)]:
        ranks = ", ".join(map(str, sorted({ranks_of(row) for row in beyond})))
        yield f"Not in this answer: {ranks} ranks, which share {cores_of(beyond[0])} cores"


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
    """Say how one side does, in its only setting or in the middle of several."""
    name = own[0].name
    if len(own) == 1:
        [side] = own
        time, *more = filter(None, (shown(metric, side.row) for metric in merits_of(sides)))
        found = f"{name}: {time}, {times(side)} {base}{known_of(side)}{where}{claim(side, base)}"
        return ", ".join((found, *more))
    ratios = [(side, side.ratio) for side in own if side.ratio]
    values = [ratio.value for _, ratio in ratios]
    found = f"{name}: {between([median(values)])} × as fast as {base}{where}"
    found += f"; the median of {len(values)} settings"
    if not any(ratio.ends for _, ratio in ratios):
        return f"{found} ({between(values)})"
    told: dict[str, list[float]] = {}
    for side, ratio in ratios:
        told.setdefault(verdict(sides, side, ratio), []).append(ratio.value)
    counts = []
    for word in sorted(told, key=VERDICTS.index):
        ends = "" if word == UNCLEAR else f" ({between(told[word])})"
        counts.append(f"{word} in {len(told[word])}{ends}")
    return f"{found}: {', '.join(counts)}"


def verdict(sides: Sides, side: Side, ratio: Ratio) -> str:
    """Return the one of VERDICTS that a ratio is told as."""
    if ratio.has_one:
        return UNCLEAR
    is_scaling = sides.contest and RANKS[0] in sides.contest.factors
    ideal = ranks_of(side.row) / ranks_of(ratio.base.row)
    if is_scaling and ratio.ends and ratio.ends[0] > ideal:
        return BEYOND_IDEAL
    return FASTER if ratio.value > 1 else SLOWER


def between(values: Sequence[float]) -> str:
    """Format "1.13 to 1.42", or the only value."""
    ends = (figure(end, abs(end) / 100) for end in (min(values), max(values)))
    return " to ".join(dict.fromkeys(ends))


def known_of(side: Side) -> str:
    """Format what is known of a ratio: " [1.1, 1.3]" or, of a range, " (1.1 to 1.3, 5 turns)"."""
    ratio = side.ratio
    if not (ratio and ratio.ends):
        return ""
    low, high = (figure(end, half_of(ratio)) for end in ratio.ends)
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
    leading = [list(leaders(list(own))) for _, own in groupby(compared, key=lambda side: side.work)]
    last = at_end(sides, compared)
    first, *rivals = leaders([side for side in last if side.work == last[-1].work])
    found = first.name
    if rivals:
        names = [side.name for side in rivals[:2]] + [f"{len(rivals) - 2} more"] * (len(rivals) > 2)
        found += f" (not told apart from {', '.join(names)})"
    metrics = merits_of(sides)
    metrics = [m for m in metrics if not any(is_beyond_ideal(m, side.row) for side in compared)]
    time, *more = filter(None, (shown(metric, first.row) for metric in metrics))
    over = "the fastest" if first.is_base else f"{times(first)} {base}{known_of(first)}"
    scale = scale_words(sides, first.row)
    at = f" at {', '.join(scale)}" if scale else ""
    found = ", ".join((f"{found}: {time}", f"{over}{where}{at}", *more))
    if len(leading) > 1:
        counts = Counter(side.name for own in leading for side in own)
        most = max(counts.values())
        names = [name for name, count in counts.items() if count == most]
        found += f"; leading (*) in {most} of {len(leading)} settings: {', '.join(names)}"
    return found


def scale_words(sides: Sides, row: Row) -> list[str]:
    """Return where on the scale a row is, as far as that differs."""
    return [sides.word(name, row[name]) for name in sides.question.scale if name in sides.work]


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


def plain_answers(sides: Sides, within: Sequence[Side]) -> Iterator[str]:
    """Yield what was measured where nothing competes: each metric at its end of the scale."""
    question, scale = sides.question, [n for n in sides.question.scale if n in sides.work]
    across = question.across if question.across in sides.work else ""
    is_along = len(scale) > 1 and not across_only(question)
    apart = scale[1] if is_along else kind_column(sides, without=across)
    for group, own in grouped(within, apart):
        words = [title_of(own[0].row)] + ([question.word(apart, group)] if apart else [])
        if across_only(question) and across:
            words += scale_words(sides, at_end(sides, own)[-1].row)
            parts = list(beside(sides, own, across))
        else:
            parts = list(along(sides, own, scale))
        yield f"{', '.join(words)}: {', '.join(parts)}"


def across_only(question: Question) -> bool:
    return not any(metric.only for metric in question.metrics) and bool(question.across)


def along(sides: Sides, own: Sequence[Side], scale: Sequence[str]) -> Iterator[str]:
    """Yield each metric at its end of the scale: "1.1 ms alone at 1 MiB"."""
    for metric in sides.question.metrics:
        having = [side for side in own if has(metric, side.row)]
        if not having:
            continue
        end = having[0] if metric.at == LEAST else having[-1]
        if scale and not metric.only and metric is not sides.question.metrics[0]:
            end = at_end(sides, having)[-1]
        words = [sides.word(name, value) for name, value in metric.only.items()]
        at = [f"at {sides.word(scale[0], end.row[scale[0]])}"] if scale else []
        yield " ".join([shown(metric, end.row), *words, *at])


def beside(sides: Sides, own: Sequence[Side], across: str) -> Iterator[str]:
    """Yield the time of each value of a column, at the end of the scale: "forward 25 ms".

    The other metrics are of the last value.
    """
    time, *others = sides.question.metrics
    last = [side for side in at_end(sides, own) if has(time, side.row)]
    for side in last:
        more = side.row[time.column] / last[0].row[time.column]
        known = [f"{figure(more, 0.05 * more)} × as long"] if side is not last[0] else []
        known += [shown(metric, side.row) for metric in others] if side is last[-1] else []
        beside_it = f" ({', '.join(filter(None, known))})" if any(known) else ""
        yield f"{sides.word(across, side.row[across])} {shown(time, side.row)}{beside_it}"


# What is known of it


def how_sure(sides: Sides, has_stars: bool) -> str:
    """Say what the ends beside times and ratios are, and what is not in them."""
    rows = [side.row for side in sides.sides]
    ends = ((*ends_of_time(row), row["median_s"]) for row in rows)
    widths = [max(high / middle, 2 - low / middle) - 1 for low, high, middle in ends]
    runs = num_runs(sides)
    of_median = sum(not pd.isna(row["ci_low_s"]) for row in rows)
    counts = [int(row["num_samples"]) for row in rows]
    calls = " to ".join(f"{count:,}" for count in dict.fromkeys((min(counts), max(counts))))
    kind = f"{'middle half' if min(counts) >= FEWEST_QUARTILES else 'range'} of {calls} calls"
    if of_median == len(rows):
        kind = "95 % intervals of the median"
    if 0 < of_median < len(rows):
        kind = f"95 % intervals of the median [ ], else {kind}"
    if runs > 1:
        kind = f"medians of {runs} runs, " + ("95 % intervals" if of_median else "ranges of runs")
    middle, most = plus_minus(median(widths)), plus_minus(max(widths))
    most = f", at most {most}" if most != middle else ""
    parts = [f"times to {middle}{most} ({kind})"]
    ratios = [side.ratio for side in sides.sides if side.ratio]
    bases = {ratio.basis: ratio.is_interval for ratio in ratios if ratio.basis != APART}
    if bases:
        basis = ", ".join(list(bases)[:2])
        parts.append(f"ratios {'[95 %]' if any(bases.values()) else 'range'} over {basis}")
    elif ratios:
        parts.append("ratios are of points that took no turns: nothing is claimed")
    if has_stars:
        parts.append("*: not told apart from the fastest")
    if ratios and sides.companions:
        parts.append(f"the sides differ in {', '.join(sides.companions)}, too")
    if sides.merged:
        parts.append(f"taken as alike: cases that differ in {', '.join(sides.merged)}")
    if sides.is_first:
        parts.append("the side that the suite compares with is missing: the first stands in")
    floors = {row["noise_floor"] for row in rows if str(row["title"]) in str(row["noise_floor"])}
    if len(floors) == 1:
        parts.append(f"identical runs differ by {floors.pop()}")
    if all(pd.isna(row.get("unchecked")) for row in rows):
        parts.append("results checked")
    within = " within one run" if runs == 1 else ""
    return f"How sure{within}: {'; '.join(parts)}"


def ends_of(table: pd.DataFrame, asked: Question) -> Iterator[str]:
    """Yield what was not measured, failures first: a line per reason or, of many, per status."""
    failed = table[table["status"] != "ok"]
    reasons = failed["reason"].map(first_line, na_action="ignore").fillna("no reason given")
    counts = Counter(zip(failed["status"], reasons, strict=True)).most_common()
    by_status: dict[str, list[tuple[str, int]]] = {}
    for (status, reason), count in sorted(counts, key=lambda each: each[0][0] in HARMLESS):
        by_status.setdefault(status, []).append((reason, count))
    is_long = len(counts) > MOST_REASONS
    for status, found in by_status.items():
        for reason, count in found[:1] if is_long else found:
            num = sum(count for _, count in found) if is_long else count
            others = f" (and {len(found) - 1} other reasons)" if is_long and len(found) > 1 else ""
            having = failed[(failed["status"] == status) & (is_long | (reasons == reason))]
            where = f" ({alike})" if (alike := shared_by(having, table, asked)) else ""
            yield f"{num} case{'s' * (num > 1)}{where} {status}: {reason}{others}"


def shared_by(rows: pd.DataFrame, table: pd.DataFrame, asked: Question) -> str:
    """Return the settings that all of some rows have, but not all of a table: "slowdown 1"."""
    names = dict.fromkeys(("backend", "world_size", *own_columns(table)))
    held = {name: rows[name].iloc[0] for name in names if num_of(rows, name) == 1}
    apart = {name: value for name, value in held.items() if num_of(table, name) > 1}
    return ", ".join(asked.word(*each) for each in apart.items() if not pd.isna(each[1]))


def spoils_of(table: pd.DataFrame, asked: Question, is_left_out: bool) -> Iterator[str]:
    """Yield what spoils the answer, the worst first.

    Args:
        is_left_out: whether the answer leaves out ranks that share cores, and says so.
    """
    measured = table[table["status"] == "ok"]
    found = []
    shared = sorted(set(measured.loc[crowded(measured), "world_size"]))
    if shared and not is_left_out:
        ranks = ", ".join(f"{size:.0f}" for size in shared)
        found.append(f"Times of {ranks} ranks are of shared cores: more threads than cores")
    for name, what in (
        ("doubt", "doubtful"),
        ("disturbed", "disturbed"),
        ("unchecked", "unchecked"),
    ):
        having = measured[measured[name].notna()]
        if len(having):
            [(line, _)] = Counter(map(shortened, having[name])).most_common(1)
            where = f" ({alike})" if (alike := shared_by(having, measured, asked)) else ""
            found.append(f"{len(having)} of {len(measured)} cases{where} {what}: {line}")
    warned = Counter(
        map(shortened, measured.drop_duplicates(["point_id", "run"])["warning"].dropna())
    )
    found += [f"Warning: {line}" for line, _ in warned.most_common(2)]
    yield from found[:MOST_SPOILS]
    if len(found) > MOST_SPOILS:
        yield f"and {len(found) - MOST_SPOILS} more: noise.md"
