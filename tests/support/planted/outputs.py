"""Reads what each output says of planted problems, and holds it against speedups.csv.

Outputs are read as a user sees them: analysis.txt, the figures' points and texts, and the page's HTML. Each number with
×, each judgement and each star must be that of the file, or follow from it.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pandas as pd
from analysis.page import render
from analysis.report.parts import ReportData, with_ids
from analysis.shared.output import write
from analysis.table.speedup import Standing
from analysis.table.variants import compare_suites
from benchkit.statistics.judgement import AHEAD, BEHIND, NOT_JUDGED, TIED, UNCLEAR

from tests.support.entries.report import report
from tests.support.planted.conclusions import SUITE

Key = tuple[str, str]
"""The words of a problem, as tables have them, and the name of a variant."""
MIRRORED = {AHEAD: BEHIND, BEHIND: AHEAD}
TIE = "tied (± 5 %)"
WORD = rf"ahead|behind|{re.escape(TIE)}|unclear|not judged"
NUMBER = r"[\d.,]+"
ENDS = rf" \[(?P<low>{NUMBER}), (?P<high>{NUMBER})\]| \((?P<least>{NUMBER}) to (?P<most>{NUMBER}), [^)]*\)"
RATIO = re.compile(rf"(?:(?P<from>{NUMBER}) to )?(?P<value>{NUMBER}) × as fast as (?P<over>\w+)(?:{ENDS})?")
ANSWER = re.compile(r"(?P<name>\w+)(?: \((?P<rivals>(?:[^()]|\([^()]*\))*)\))?: (?P<rest>.*)")


@dataclass(frozen=True)
class Row:
    """A row of speedups.csv."""

    baseline: str
    median_s: float
    baseline_s: float
    speedup: float
    ends: tuple[float, float] | None
    basis: str
    judgement: str

    @property
    def is_interval(self) -> bool:
        return self.basis.endswith("interval")

    @property
    def word(self) -> str:
        return TIE if self.judgement == TIED else self.judgement

    @property
    def follows(self) -> str:
        """The judgement that follows from the other cells."""
        if not self.is_interval or self.ends is None:
            return NOT_JUDGED
        low, high = self.ends
        if low > 1 / 1.05 and high < 1.05:
            return TIED
        return AHEAD if low > 1 else BEHIND if high < 1 else UNCLEAR


class Outputs:
    """All outputs of a table of the suite SUITE, written into a folder or read from memory."""

    def __init__(self, table: pd.DataFrame, folder: Path, has_page: bool = True) -> None:
        parts = ReportData(with_ids(table))
        made = dict(report.texts_of(parts))
        for name in ("speedups.csv", "analysis.txt"):
            content = made[name]()
            assert content is not None
            write(folder, name, content)
        self.text = (folder / "analysis.txt").read_text()
        with (folder / "speedups.csv").open() as lines:
            self.cells = list(csv.DictReader(lines))
        charts = parts.charts.values()
        self.charts = {name: chart for found in charts for name, chart in found.items() if name.startswith(SUITE)}
        [self.variants] = compare_suites(parts.table).values()
        self.page = ""
        if has_page:
            with patch.object(render, "drawing_library", lambda: ""):
                self.page = render.render(parts, [])

    @cached_property
    def columns(self) -> list[str]:
        """The columns that tell problems apart."""
        return [name for name in ("n", "host") if len({row[name] for row in self.cells}) > 1]

    def words(self, row: Mapping[str, Any]) -> str:
        return " ".join(self.parts(row))

    def parts(self, row: Mapping[str, Any]) -> list[str]:
        return [f"n {row[name]}" if name == "n" else str(row[name]) for name in self.columns]

    @cached_property
    def problems(self) -> dict[str, list[str]]:
        """The words of each problem, joined and apart."""
        return {self.words(row): self.parts(row) for row in self.cells}

    @cached_property
    def rows(self) -> dict[Key, Row]:
        """Of speedups.csv."""
        found = {}
        for row in self.cells:
            ends = (float(row["speedup_low"]), float(row["speedup_high"])) if row["speedup_low"] else None
            name = row.get("strategy") or row["backend"]
            found[self.words(row), name] = Row(
                row["baseline"], float(row["median_s"]), float(row["median_s_baseline"]), float(row["speedup"]),
                ends, row["speedup_basis"], row["judgement"],
            )  # fmt: skip
        assert len(found) == len(self.cells)
        return found

    @cached_property
    def standings(self) -> dict[str, Standing]:
        of = {number: self.words(own[0].row) for number, own in self.variants.by_problem.items()}
        return {of[number]: standing for number, standing in self.variants.standings.items()}

    @cached_property
    def answers(self) -> list[str]:
        """The lines of the first screen that are about a variant."""
        lines = re.sub(r"\n  (?=\S)", " ", self.text.split("\n\n")[0]).splitlines()
        return [line for line in lines if ANSWER.fullmatch(line)]

    def of_problem(self, problem: str) -> dict[str, Row]:
        return {name: row for (words, name), row in self.rows.items() if words == problem}

    def judgement(self, problem: str, name: str, over: str) -> str | None:
        """What the file says of one variant over another; None where neither is the baseline."""
        rows = self.of_problem(problem)
        if name in rows and rows[name].baseline == over:
            return rows[name].judgement
        if over in rows and rows[over].baseline == name:
            return MIRRORED.get(rows[over].judgement, rows[over].judgement)
        return None

    def judged(self, problem: str) -> dict[str, str]:
        """What is judged of the fastest against each other variant, in the words of texts."""
        judgements = self.standings[problem].judgements
        return {other.name: TIE if word == TIED else word for other, word in judgements}

    def fastest(self, problem: str) -> str:
        rows = self.of_problem(problem)
        name = max(rows, key=lambda name: rows[name].speedup)
        return name if rows[name].speedup > 1 else rows[name].baseline


def disagreements(table: pd.DataFrame, folder: Path, has_page: bool = True) -> list[str]:
    """What outputs say otherwise than speedups.csv, a line each."""
    outputs = Outputs(table, folder, has_page)
    found = [*of_file(outputs), *of_standings(outputs), *of_answers(outputs), *of_grid(outputs), *of_figures(outputs)]
    return found + ([*of_page(outputs)] if has_page else [])


def is_printed(text: str, value: float) -> bool:
    """Whether a text is this number, in the digits that it has."""
    digits = text.replace(",", "")
    decimals = len(digits.partition(".")[2])
    unit = 10.0**-decimals if decimals else 10.0 ** (len(digits) - len(digits.rstrip("0")))
    return abs(float(digits) - value) <= 0.5001 * unit


def are_printed(texts: Sequence[str | None], values: Sequence[float] | None) -> bool:
    return values is not None and all(map(is_printed, map(str, texts), values))


# The file


def of_file(outputs: Outputs) -> Iterator[str]:
    """Hold the file's cells against each other, and against the variants of the table."""
    known = {(outputs.words(each.row), each.name): each.speedup for each in outputs.variants.variants if each.speedup}
    if known.keys() != outputs.rows.keys():
        yield f"speedups.csv: rows {[*outputs.rows]}, speedups {[*known]}"
    for key, row in outputs.rows.items():
        speedup = known[key]
        told = (row.baseline, row.speedup, row.ends, row.judgement)
        if told != (speedup.reference.name, speedup.value, speedup.interval_or_range, speedup.judgement):
            yield f"speedups.csv: {key} is {told}, the speedup {speedup}"
        if row.judgement != row.follows:
            yield f"speedups.csv: {key} is {row.judgement} by {row.ends} ({row.basis}), which is {row.follows}"
        if row.ends and not row.ends[0] <= row.speedup <= row.ends[1]:
            yield f"speedups.csv: {key}: {row.speedup} is not between its ends {row.ends}"
        if abs(row.speedup * row.median_s / row.baseline_s - 1) > 1e-9:
            yield f"speedups.csv: {key}: {row.speedup} is not the quotient of {row.baseline_s} and {row.median_s}"


def of_standings(outputs: Outputs) -> Iterator[str]:
    """Hold what is judged of the fastest against the file."""
    for problem, standing in outputs.standings.items():
        first = standing.fastest.name
        if first != outputs.fastest(problem):
            yield f"standing of {problem}: {first}, the fastest is {outputs.fastest(problem)}"
        for other, word in standing.judgements:
            told = outputs.judgement(problem, first, other.name)
            if told not in (None, word):
                yield f"standing of {problem}: {first} is {word} of {other.name}, in the file {told}"


# The first screen


def of_answers(outputs: Outputs) -> Iterator[str]:
    if not outputs.answers:
        yield "first screen: no answer"
    for line in outputs.answers:
        name, rivals, rest = match.groups("") if (match := ANSWER.fullmatch(line)) else ("", "", line)
        what, *parts = rest.split("; ")
        ratio = RATIO.search(what)
        place = {*re.split(", | at ", what[ratio.end() if ratio else 0 :])} & {*chain(*outputs.problems.values())}
        problems = [each for each, words in outputs.problems.items() if place <= {*words}]
        if ratio and parts and re.match(r"(?:the median of|in) \d+ settings", parts[0]):
            rows = [outputs.rows[problem, name] for problem in problems]
            found = of_counts(rows, ratio, parts[0])
        elif len(problems) != 1:
            found = iter([f"is of {problems}"])
        elif len(outputs.of_problem(*problems)) == 1:
            found = of_single(outputs.of_problem(*problems).get(name), ratio, parts)
        else:
            found = of_fastest(outputs, *problems, name, ratio, [rivals, *parts])
        yield from (f"first screen: {line!r}: {each}" for each in found)


def of_counts(rows: Sequence[Row], ratio: re.Match[str], text: str) -> Iterator[str]:
    """Hold "the median of 3 settings: ahead in 2 (1.2 to 1.3), unclear in 1 (1.1) in this run"."""
    values = [row.speedup for row in rows]
    ends = (ratio["from"] or ratio["value"], ratio["value"])
    shown = [median(values)] * 2 if text.startswith("the median of") else [min(values), max(values)]
    if not are_printed(ends, shown):
        yield f"they are {values}"
    if f" {len(rows)} settings" not in text:
        yield f"the file has {len(rows)} of them"
    groups = re.findall(rf"({WORD}) in (\d+) \(({NUMBER})(?: to ({NUMBER}))?\)", text)
    groups = groups or [(NOT_JUDGED, len(rows), *ends)]
    if {word: int(number) for word, number, *_ in groups} != Counter(row.word for row in rows):
        yield f"the file has {Counter(row.word for row in rows)}"
    for word, _, low, high in groups:
        values = [row.speedup for row in rows if row.word == word]
        if not values or not are_printed((low, high or low), (min(values), max(values))):
            yield f"{word} are {values}"


def of_single(row: Row | None, ratio: re.Match[str] | None, parts: Sequence[str]) -> Iterator[str]:
    """Hold the only variant of the only problem, "b: 1 ms, 1.2 × as fast as a [1.1, 1.3]; ahead in this run"."""
    if row is None or ratio is None:
        yield "it has no speedup"
        return
    yield from of_ratio(ratio, row)
    words = [word for part in parts for word in re.findall(rf"^({WORD}) (?:in this run|over \d+ runs)", part)]
    if words != [row.word] * (row.judgement != NOT_JUDGED):
        yield f"the file has {row.word}"


def of_ratio(ratio: re.Match[str], row: Row) -> Iterator[str]:
    """Hold a speedup and its ends; those of a range are in round brackets."""
    shown = ("low", "high") if row.is_interval else ("least", "most")
    if ratio["over"] != row.baseline or not is_printed(ratio["value"], row.speedup):
        yield f"the file has {row}"
    elif row.ends and not (ratio[shown[0]] and are_printed([ratio[end] for end in shown], row.ends)):
        yield f"the ends are {row.ends} of {row.basis}"
    elif not row.ends and (ratio["low"] or ratio["least"]):
        yield "it has no ends"


def of_fastest(
    outputs: Outputs, problem: str, name: str, ratio: re.Match[str] | None, parts: Sequence[str]
) -> Iterator[str]:
    """Hold the fastest of several variants, and what is judged of it against the others."""
    if name != outputs.fastest(problem):
        yield f"the fastest is {outputs.fastest(problem)}"
    row = outputs.of_problem(problem).get(name)
    if row and ratio:
        yield from of_ratio(ratio, row)
    elif row or ratio:
        yield f"in the file it is {row}"
    *words, settings = [part for part in parts if part] or [""]
    if " settings" not in settings:
        words, settings = [*words, settings], ""
    text = re.sub(r" (in this run.*|over \d+ runs)$", "", ", ".join(filter(None, words)))
    pieces = re.split(rf"(?:^|, )({WORD})(?: of| with| against|) ", text)[1:]
    yield from of_judged(outputs.judged(problem), dict(zip(pieces[::2], pieces[1::2], strict=True)))
    for leader, count, of in re.findall(r"(\w+) is ahead of all in (\d+) of (\d+) settings", settings):
        leads = [each.fastest.name for each in outputs.standings.values() if each.is_ahead_of_all]
        if (str(leads.count(leader)), str(len(outputs.standings))) != (count, of):
            yield f"{leader} is ahead of all in {leads.count(leader)} of {len(outputs.standings)}"


def of_judged(judged: Mapping[str, str], told: Mapping[str, str]) -> Iterator[str]:
    """Hold what is told of the fastest against the others: by judgement, names, or how many they are.

    Where nothing is told, nothing is judged.
    """
    for word in {*judged.values(), *told} - ({NOT_JUDGED} if not told else set()):
        names = [name for name, of in judged.items() if of == word]
        *listed, last = told.get(word, "none").split(", ")
        if more := re.fullmatch(r"(?:all )?(\d+)(?: more| others)?", last):
            is_right = len(names) == len(listed) + int(more[1]) and {*listed} <= {*names}
        else:
            is_right = {*names} == {*listed, last}
        if not is_right:
            yield f"{word} {told.get(word)}, judged is {dict(judged)}"


# The table of the first screen


@dataclass(frozen=True)
class Shown:
    """A cell of the table with a speedup."""

    number: str
    has_star: bool
    ends: str


def grid_of(outputs: Outputs) -> list[list[str]]:
    """Heads, in one line each, and rows of the table as the page has it, or else as Markdown."""
    from analysis.screen.screen import grid_of as made

    lines = made(outputs.variants).table().markdown().splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [cells[0], *cells[2:]]


def shown_in(outputs: Outputs, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[Key, Shown]:
    """The speedups of a table; those of its baselines, too, where they have a cell."""
    found: dict[Key, Shown] = {}
    by_row = bool(outputs.columns) and {*heads} >= {*outputs.columns}
    fixed = len(outputs.columns) if by_row else 1
    for row in rows:
        of_row = " ".join(row[:fixed])
        name = row[-1] if heads[-1] == "fastest" else ""
        title = ""
        for place in range(fixed, len(heads)):
            head = heads[place]
            if head.endswith("[ms]"):
                title = head.removesuffix("[ms]").strip()
                if row[place].endswith(" *"):  # of a baseline without a cell for its speedup
                    found[(of_row, title) if by_row else (title, of_row)] = Shown("1", True, "")
            elif head == "ratio" and row[place]:
                number, star, _ = f"{row[place]} ".partition(" *")
                ends = row[place + 1] if place + 1 < len(heads) and heads[place + 1] == "" else ""
                key = (of_row, name or title) if by_row else (title, of_row)
                found[key] = Shown(number.strip(), bool(star), ends)
    return found


def of_grid(outputs: Outputs) -> Iterator[str]:
    heads, *rows = grid_of(outputs)
    if "ratio" not in heads:
        return  # a narrower table
    shown = shown_in(outputs, heads, rows)
    has_ends = heads[heads.index("ratio") + 1 :][:1] == [""]
    for (problem, name), cell in shown.items():
        row = outputs.of_problem(problem).get(name)
        if row is None:
            if cell.number != "1" or name not in {each.baseline for each in outputs.of_problem(problem).values()}:
                yield f"table: {problem} {name} {cell}, no row of the file"
        else:
            yield from of_cell(f"table: {problem} {name}", cell, row, has_ends)
    if heads[-1] != "fastest":
        if missing := outputs.rows.keys() - shown.keys():
            yield f"table: nothing of {sorted(missing)}"
        for problem, standing in outputs.standings.items():
            stars = {name for (words, name), cell in shown.items() if words == problem and cell.has_star}
            if stars != standing.leaders:
                yield f"table: {problem} has stars at {sorted(stars)}, starred are {sorted(standing.leaders)}"
    for row in rows:
        line = " ".join(cell for cell in row if cell)
        if line.split() not in [each.split() for each in outputs.text.splitlines()] and "more row" not in outputs.text:
            yield f"table: {line!r} is not in analysis.txt"


def of_cell(where: str, cell: Shown, row: Row, has_ends: bool) -> Iterator[str]:
    if not is_printed(cell.number, row.speedup):
        yield f"{where} is {cell.number}, in the file {row.speedup}"
    if has_ends and bool(cell.ends) != bool(row.ends):
        yield f"{where} has the ends {cell.ends!r}, in the file {row.ends}"
    if cell.ends and row.ends:
        if cell.ends.startswith("[") != row.is_interval:
            yield f"{where} has the ends {cell.ends!r} of {row.basis}"
        if not are_printed(cell.ends.strip("[]").split("–"), row.ends):
            yield f"{where} has the ends {cell.ends!r}, in the file {row.ends}"


# Figures


def of_figures(outputs: Outputs) -> Iterator[str]:
    chart = outputs.charts.get(f"{SUITE}_speedup")
    if chart is None and len(outputs.rows) == 1:
        return  # a single point is no figure
    drawn = (
        []
        if chart is None
        else sorted((each.series, each.value, *ends_of(each.low, each.high)) for each in chart.points.itertuples())
    )
    told = sorted((name, row.speedup, *ends_of(*(row.ends or (None, None)))) for (_, name), row in outputs.rows.items())
    if drawn != told:
        yield f"figure of speedups: {drawn}, in the file {told}"
    if f"{SUITE}_winner" in outputs.charts:
        for each in outputs.charts[f"{SUITE}_winner"].points.itertuples():
            yield from of_map(outputs, " ".join(filter(None, (each.x, each.series))), each.text, each.value)


def ends_of(low: float | None, high: float | None) -> tuple[float, float]:
    return (0.0, 0.0) if low is None or pd.isna(low) else (float(low), float(high or 0.0))


def of_map(outputs: Outputs, problem: str, text: str, value: float) -> Iterator[str]:
    """Hold a cell of the map of the fastest: its name, its speedup, and what is judged of it."""
    name, number, *rest = text.split("\n")
    where = f"map of the fastest, {problem}: {text!r}"
    row = outputs.of_problem(problem).get(name)
    if name != outputs.fastest(problem) or value != (row.speedup if row else 1.0):
        yield f"{where}, the fastest is {outputs.fastest(problem)}"
    if not is_printed(number.removesuffix("×"), value):
        yield f"{where}, in the file {value}"
    judged, words = outputs.judged(problem), " ".join(rest)
    pieces = re.split(rf"(?:^| )({WORD}): ", words)[1:]
    told = dict(zip(pieces[::2], pieces[1::2], strict=True))
    if not {*told.get(NOT_JUDGED, "").split(", ")} & {*judged}:
        told.pop(NOT_JUDGED, None)  # a reason, and no names
    num_ahead = Counter(judged.values())[AHEAD]
    found = of_judged(judged, told | ({AHEAD: str(num_ahead)} if num_ahead and (told or not words) else {}))
    yield from (f"{where}: {each}" for each in found)


# The page


def of_page(outputs: Outputs) -> Iterator[str]:
    """Hold what the page says in words, in its table and in its figures against the other outputs."""
    head = outputs.page.partition("</header>")[0]
    [headline] = re.findall("<h1>(.*?)</h1>", head, flags=re.DOTALL)
    items = [unescape(re.sub("<.*?>", "", item)) for item in re.findall("<li>(.*?)</li>", head, flags=re.DOTALL)]
    answer, *others = outputs.answers
    first, _, more = answer.partition("; ")
    if headline.count("(") != headline.count(")"):
        yield f"page: the head ends within brackets: {unescape(headline)!r}"
    if unescape(headline) != first or items[: len(others) + bool(more)] != [*filter(None, (more, *others))]:
        yield f"page: {unescape(headline)!r} and {items[:2]}, on the first screen {outputs.answers}"
    heads, *rows = grid_of(outputs)
    lines = re.findall("<tr>(.*?)</tr>", head, flags=re.DOTALL)
    cells = [[unescape(cell) for cell in re.findall("<t[dh].*?>(.*?)</t[dh]>", line)] for line in lines]
    if cells != [heads, *rows]:
        yield f"page: the table is {cells}, on the first screen {[heads, *rows]}"
    [data] = re.findall('<script type="application/json" id="data">(.*?)</script>', outputs.page, flags=re.DOTALL)
    written = json.dumps(json.loads(data), ensure_ascii=False)
    if f"{SUITE}_winner" in outputs.charts:
        for text in outputs.charts[f"{SUITE}_winner"].points["text"]:
            if json.dumps(text, ensure_ascii=False)[1:-1] not in written:
                yield f"page: no cell has {text!r}"
