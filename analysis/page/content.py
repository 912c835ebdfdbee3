"""What the page shows: question and answer, a section per suite, and what else is known."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import pandas as pd

from analysis.page.failures import FailureKind, failures_of
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
from analysis.records.environments import Facts, summary
from analysis.report import sentences
from analysis.report.chart import Chart, Charts
from analysis.report.choice import MOST_FIGURES, choose_figures
from analysis.report.parts import ReportData
from analysis.screen.grid import ScreenTable
from analysis.screen.screen import Screen
from analysis.shared.discover import or_left_out
from analysis.shared.text_table import MOST_ROWS, beginning
from benchkit.record.naming import drop_resume_settings
from benchkit.record.record import HARMLESS

MOST_TITLES = 4
TEXT_LEVEL = 3
"""Of the highest heading of a suite's own text."""


@dataclass(frozen=True)
class PageFigure:
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
class SuiteSection:
    """The section of a suite.

    Attributes:
        id: of the section.
        name: of the suite.
        title: its name, and what it measured where that has other names.
        measurements: its table.
        figures: interactive ones.
        left_out: figures that would be too large, and why.
        texts: its own tables, as HTML.
    """

    id: str
    name: str
    title: str
    measurements: Measurements
    figures: list[PageFigure]
    left_out: list[str]
    texts: list[str]


def suite_of(
    number: int,
    table: pd.DataFrame,
    parts: ReportData,
    charts: Sequence[Chart],
    not_drawn: list[str],
    samples: Packed,
) -> SuiteSection:
    """Make the section of a suite.

    Args:
        table: rows of this suite in the combined table, with PAGE_ROW.
        not_drawn: what to say of other figures.
        samples: by PAGE_ROW.
    """
    name = str(table["suite"].iloc[0])
    made = (make_figure(f"figure-{number}-{place}", chart) for place, chart in enumerate(charts))
    texts = parts.texts_of(name)
    return SuiteSection(
        id=f"suite-{number}",
        name=name,
        title=title_of(table),
        measurements=measurements_of(table, samples),
        figures=[each for each in made if each],
        left_out=not_drawn,
        texts=[as_html(text, TEXT_LEVEL) for key, text in texts.items() if key.endswith(".md")],
    )


def title_of(table: pd.DataFrame) -> str:
    """Return "collective: all_reduce, broadcast", or the suite's name where titles are many."""
    suite, titles = str(table["suite"].iloc[0]), list(table["title"].dropna().unique())
    if titles == [suite] or len(titles) > MOST_TITLES:
        return suite
    return f"{suite}: {', '.join(titles)}"


def make_figure(place: str, chart: Chart) -> PageFigure | None:
    """Make a figure; None, with a line on stderr, where that fails."""
    data = or_left_out(f"figure {chart.title}", partial(figure_of, chart))
    if data is None:
        return None
    return PageFigure(
        place, chart.title, chart.small_print, describe(chart), len(chart.panels), data
    )


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
class PageContent:
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
        unsampled: how many rows have samples; "" where all have.
    """

    screen: Screen
    answer_table: str
    tally: str
    overview: list[str]
    trust: list[str]
    commands: list[str]
    suites: list[SuiteSection]
    findings: dict[str, list[str]]
    texts: list[str]
    environment: list[tuple[str, str]]
    failures: list[FailureKind]
    samples: Packed
    unsampled: str

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
    parts: ReportData, environments: Sequence[Facts], most_figures: int | None = MOST_FIGURES
) -> PageContent:
    """Collect the page of a report; a part that cannot be made is left out with a line on stderr.

    Args:
        parts: of a report on rows `with_ids`.
        environments: one per record.
        most_figures: that the page has; None for all.
    """
    table, screen = parts.table, parts.screen
    sampled = table[table["path"].isin(paths_sampled(parts))]
    samples = or_left_out("samples", partial(samples_of, sampled)) or {}
    names = list(dict.fromkeys(table["suite"]))
    charts, not_drawn = figures_of_suites(parts.charts, names, most_figures)
    return PageContent(
        screen=screen,
        answer_table=answer_table(screen.grid) if screen.grid else "",
        tally=tally_of(table),
        overview=parts.findings[sentences.OVERVIEW],
        trust=parts.findings[sentences.RUNS],
        commands=list(islice(commands_of(table), MOST_COMMANDS)),
        suites=[
            suite_of(
                number, table[table["suite"] == name], parts, charts[name], not_drawn[name], samples
            )
            for number, name in enumerate(names, 1)
        ],
        findings=dict(other_paragraphs(parts.findings | {sentences.NOISE: parts.noise})),
        texts=[as_html(page, TEXT_LEVEL) for page in (parts.turns, parts.rank_devices) if page],
        environment=list(environment_of(environments)),
        failures=failures_of(table),
        samples=samples,
        unsampled=sampling_note(len(samples), len(parts.measured)),
    )


def figures_of_suites(
    found: Mapping[str, Charts], suites: Sequence[str], most: int | None
) -> tuple[dict[str, list[Chart]], dict[str, list[str]]]:
    """Choose the figures of each suite's section.

    Returns:
        They, and what to say of those that are not drawn.
    """
    charts: dict[str, list[Chart]] = {name: [] for name in suites}
    not_drawn: dict[str, list[str]] = {name: [] for name in suites}

    def section(chart: Chart) -> str:
        # A chart of a foreign suite may not know its suite.
        return chart.suite if chart.suite in charts else suites[0]

    fitting: dict[str, Charts] = {}
    for module, own in found.items():
        for name, chart in own.items():
            if why := too_large(chart):
                not_drawn[section(chart)].append(f"{chart.title}: {why}.")
            else:
                fitting.setdefault(module, {})[name] = chart
    kept, left_out = choose_figures(fitting, most)
    for own in kept.values():
        for chart in own.values():
            charts[section(chart)].append(chart)
    if left_out:
        not_drawn[suites[-1]].append(f"{left_out}.")
    return charts, not_drawn


def answer_table(grid: ScreenTable) -> str:
    """Return the first rows of the table of the answer, as HTML."""
    table = grid.table(grid.rows[:MOST_ROWS]).markdown()
    return as_html("\n\n".join([table, *beginning(len(grid.rows))]), TEXT_LEVEL)


MOST_SAMPLED = 1000
"""Cases whose samples are on the page. Nobody looks at all of thousands, and to read their records
again takes most of the time."""


def paths_sampled(parts: ReportData) -> list[str]:
    """Choose records whose samples are on the page: of many points some, evenly apart."""
    paths = list(dict.fromkeys(parts.measured["path"].dropna()))
    if len(parts.measured) > MOST_SAMPLED:
        paths = list(dict.fromkeys(parts.points["path"].dropna()))
        count = min(len(paths), round(len(paths) * MOST_SAMPLED / len(parts.points)))
        paths = [paths[round(place)] for place in np.linspace(0, len(paths) - 1, count)]
    return paths


def sampling_note(count: int, total: int) -> str:
    """Say how many cases have samples on the page, and how to see others; "" where all have."""
    if count >= total:
        return ""
    return (
        f"{count:,} of {total:,} cases have their samples on this page. The page of the folders of "
        "some points has all of theirs: benchkit-analysis FOLDER ... --html"
    )


def other_paragraphs(found: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
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
        again = drop_resume_settings(arguments) or arguments
        commands.append(f"{program} {shlex.join(again)}".strip())
    yield from dict.fromkeys(filter(None, commands))


def environment_of(environments: Sequence[Facts]) -> Iterator[tuple[str, str]]:
    """Yield what is known of hosts and software; values that differ stand beside each other."""
    for name in dict.fromkeys(name for facts in environments for name in facts):
        values = [facts[name] for facts in environments if facts.get(name) is not None]
        if values:
            yield name, summary(values, "")
