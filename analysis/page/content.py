"""What the page shows: question and answer, a section per suite, and what else is known."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pandas as pd

from analysis.discover import or_left_out, write_all
from analysis.page.failures import Failure, failures_of
from analysis.page.figures import (
    FigureData,
    Packed,
    describe,
    figure_of,
    records_of,
    samples_of,
    too_large,
)
from analysis.page.markdown import as_html
from analysis.page.measurements import Measurements, measurements_of
from analysis.page.pictures import Picture, pictures_of
from analysis.records.environments import Facts, summary
from analysis.report import report, sentences
from analysis.report.chart import PAGE_ROW, Chart, charts_of
from analysis.screen import Screen, screen_of
from analysis.variants import Baseline
from benchkit.record.naming import without_settings
from benchkit.record.record import HARMLESS

MOST_TITLES = 4
TEXT_LEVEL = 3
"""Of the highest heading of a suite's own text."""


@dataclass(frozen=True)
class Figure:
    """An interactive figure.

    Attributes:
        id: of its place on the page.
        title: what is measured.
        note: how to read it.
        words: what it shows, for readers who do not see it.
        num_panels: side by side.
        data: what page.js draws.
    """

    id: str
    title: str
    note: str
    words: str
    num_panels: int
    data: FigureData


@dataclass(frozen=True)
class Suite:
    """The section of a suite.

    Attributes:
        id: of the section.
        name: of the suite.
        title: its name, and what it measured where that has other names.
        measurements: its table.
        figures: interactive ones.
        pictures: plots of suites that have no interactive ones.
        left_out: figures that would be too large, and why.
        texts: its own tables, as HTML.
    """

    id: str
    name: str
    title: str
    measurements: Measurements
    figures: list[Figure]
    pictures: list[Picture]
    left_out: list[str]
    texts: list[str]


def suite_of(
    number: int,
    table: pd.DataFrame,
    baseline: Baseline | None,
    charts: Sequence[Chart],
    samples: Packed,
) -> Suite:
    """Make the section of a suite.

    Args:
        table: rows of this suite in the combined table, with PAGE_ROW.
        baseline: what speedups compare with; by default the suite has its own.
        samples: by PAGE_ROW.
    """
    shown = [chart for chart in charts if not too_large(chart)]
    made = (figure(f"figure-{number}-{place}", chart) for place, chart in enumerate(shown))
    texts = [text for name, text in write_all(table, or_left_out) if name.endswith(".md")]
    return Suite(
        id=f"suite-{number}",
        name=str(table["suite"].iloc[0]),
        title=title_of(table),
        measurements=measurements_of(table, samples),
        figures=[each for each in made if each],
        pictures=list(pictures_of(table, baseline)),
        left_out=[f"{chart.title}: {why}." for chart in charts if (why := too_large(chart))],
        texts=[as_html(text, TEXT_LEVEL) for text in texts],
    )


def title_of(table: pd.DataFrame) -> str:
    """Return "collective: all_reduce, broadcast", or the suite's name where titles are many."""
    suite, titles = str(table["suite"].iloc[0]), list(table["title"].dropna().unique())
    if titles == [suite] or len(titles) > MOST_TITLES:
        return suite
    return f"{suite}: {', '.join(titles)}"


def figure(place: str, chart: Chart) -> Figure | None:
    """Make a figure; None, with a line on stderr, where that fails."""
    data = or_left_out(f"figure {chart.title}", partial(figure_of, chart))
    if data is None:
        return None
    return Figure(place, chart.title, chart.small_print, describe(chart), len(chart.panels), data)


def tally_of(table: pd.DataFrame) -> str:
    """Count the cases: "14 of 17 cases measured, 2 failed, 1 not available"."""
    statuses = table["status"]
    measured = (statuses == "ok").sum()
    harmless = statuses.isin(HARMLESS).sum() - measured
    failed = len(table) - measured - harmless
    parts = [f"{measured} of {len(table)} cases measured"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{harmless} skipped or not available"] if harmless else []
    return ", ".join(parts)


MOST_COMMANDS, MOST_SENTENCES = 3, 40
MAIN = "__main__.py"
"""The program of `python -m benchkit` in records."""
HEAD = (sentences.OVERVIEW, sentences.RUNS, sentences.FAILURES, sentences.NOT_MEASURED)
"""Paragraphs that have a place of their own on the page."""


@dataclass(frozen=True)
class Content:
    """All that the template shows.

    Attributes:
        screen: the answer, and what stands beside it.
        answer_table: the table of the answer, as HTML; "" without one.
        tally: how many cases were measured, and how many not.
        overview: hosts and times.
        trust: what is known of the spread between runs.
        commands: command lines that measured.
        suites: one section each.
        findings: all other sentences, by the titles of their paragraphs.
        texts: pages on turns and on the devices of ranks, as HTML.
        environment: names and values.
        failures: kinds of failures, the harmless ones last.
        samples: by the ids of rows.
    """

    screen: Screen
    answer_table: str
    tally: str
    overview: list[str]
    trust: list[str]
    commands: list[str]
    suites: list[Suite]
    findings: dict[str, list[str]]
    texts: list[str]
    environment: list[tuple[str, str]]
    failures: list[Failure]
    samples: Packed

    @property
    def rest(self) -> list[str]:
        """What follows the headline: the rest of the answers, and what was not measured."""
        first, *others = self.screen.answers or [""]
        more = first.partition("; ")[2]
        return [*filter(None, (more, *others)), *self.screen.unmeasured]

    @property
    def num_failed(self) -> int:
        """Number of cases that failed, without those that could not be measured here."""
        return sum(len(kind.names) for kind in self.failures if not kind.is_harmless)


def content_of(
    table: pd.DataFrame,
    baseline: Baseline | None,
    per_rank: pd.DataFrame,
    environments: Sequence[Facts],
) -> Content:
    """Collect the page of a report; a part that cannot be made is left out with a line on stderr.

    Args:
        baseline: what speedups compare with; by default each suite has its own.
        per_rank: one row per rank and case.
        environments: one per record.
    """
    table = table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})
    samples = or_left_out("samples", partial(samples_of, table)) or {}
    found = {title: list(lines) for title, lines in sentences.findings(table).items()}
    screen = screen_of(table, baseline)
    charts = [
        chart
        for found_in in charts_of(table, baseline, or_left_out).values()
        for chart in found_in.values()
    ]
    names = list(dict.fromkeys(table["suite"]))
    # A chart of a foreign suite may not know its suite.
    of_suite: dict[str, list[Chart]] = {name: [] for name in names}
    for chart in charts:
        of_suite[chart.suite if chart.suite in of_suite else names[0]].append(chart)
    pages = (
        report.turns_table(table),
        None if per_rank.empty else report.rank_devices_table(per_rank),
    )
    return Content(
        screen=screen,
        answer_table=as_html(screen.grid.markdown(), TEXT_LEVEL) if screen.grid else "",
        tally=tally_of(table),
        overview=found[sentences.OVERVIEW],
        trust=found[sentences.RUNS],
        commands=list(islice(commands_of(table), MOST_COMMANDS)),
        suites=[
            suite_of(number, table[table["suite"] == name], baseline, of_suite[name], samples)
            for number, name in enumerate(names, 1)
        ],
        findings=dict(further(found)),
        texts=[as_html(page, TEXT_LEVEL) for page in pages if page],
        environment=list(environment_of(environments)),
        failures=failures_of(table),
        samples=samples,
    )


def further(found: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs that have no place of their own on the page."""
    for title, lines in found.items():
        if lines and title not in HEAD:
            more = len(lines) - MOST_SENTENCES
            yield title, lines[:MOST_SENTENCES] + [f"And {more} more like these."] * (more > 0)


def commands_of(table: pd.DataFrame) -> Iterator[str]:
    """Yield the command line of each sweep, as its first record has it."""
    first = table.groupby("run", sort=False, dropna=False)["path"].first()
    commands = []
    for _, record in records_of(table[table["path"].isin(first)]):
        program, *arguments = record.environment.command or [""]
        program = "python -m benchkit" if program == MAIN else program
        again = without_settings(arguments) or arguments
        commands.append(f"{program} {shlex.join(again)}".strip())
    yield from dict.fromkeys(filter(None, commands))


def environment_of(environments: Sequence[Facts]) -> Iterator[tuple[str, str]]:
    """Yield what is known of hosts and software; values that differ stand beside each other."""
    for name in dict.fromkeys(name for facts in environments for name in facts):
        values = [facts[name] for facts in environments if facts.get(name) is not None]
        if values:
            yield name, summary(values, "")
