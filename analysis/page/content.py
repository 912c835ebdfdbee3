"""Content of the page: question and answer, a section per suite, findings and environment."""

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
from analysis.shared.discover import make_or_leave_out
from analysis.shared.text_table import MOST_ROWS, truncation_lines
from benchkit.record.naming import drop_resume_settings
from benchkit.record.record import HARMLESS

MOST_TITLES = 4
TEXT_LEVEL = 3
"""Level of the highest heading of a suite's text."""


@dataclass(frozen=True)
class PageFigure:
    """An interactive figure.

    Attributes:
        id: id of its element.
        title: what is measured.
        note: how to read it.
        words: description for screen readers.
        num_panels: number of panels.
        data: input of page.js.
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
        id: id of the section.
        name: name of the suite.
        title: name of the suite, and other titles of its rows.
        measurements: table of its rows.
        figures: interactive figures.
        left_out: notes on figures that are not drawn.
        texts: the tables of the suite, as HTML.
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
        not_drawn: notes on other figures.
        samples: by PAGE_ROW.
    """
    name = str(table["suite"].iloc[0])
    page_figures = (
        make_figure(f"figure-{number}-{place}", chart) for place, chart in enumerate(charts)
    )
    texts = parts.texts_of(name)
    return SuiteSection(
        id=f"suite-{number}",
        name=name,
        title=title_of(table),
        measurements=measurements_of(table, samples),
        figures=[figure for figure in page_figures if figure],
        left_out=not_drawn,
        texts=[as_html(text, TEXT_LEVEL) for key, text in texts.items() if key.endswith(".md")],
    )


def title_of(table: pd.DataFrame) -> str:
    """Return "collective: all_reduce, broadcast", or only the suite's name for many titles."""
    suite, titles = str(table["suite"].iloc[0]), list(table["title"].dropna().unique())
    if titles == [suite] or len(titles) > MOST_TITLES:
        return suite
    return f"{suite}: {', '.join(titles)}"


def make_figure(place: str, chart: Chart) -> PageFigure | None:
    """Make a figure; on failure print a line on stderr and return None."""
    data = make_or_leave_out(f"figure {chart.title}", partial(figure_of, chart))
    if data is None:
        return None
    return PageFigure(
        place, chart.title, chart.small_print, describe(chart), len(chart.panels), data
    )


def tally_of(table: pd.DataFrame) -> str:
    """Count the cases by outcome: "14 of 17 cases measured, 3 failed"."""
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
"""Paragraphs that the page shows elsewhere."""


@dataclass(frozen=True)
class PageContent:
    """Content of the template.

    Attributes:
        screen: the first screen.
        answer_table: table of the answer as HTML; "" without one.
        tally: number of cases by outcome.
        overview: hosts and times.
        trust: spread between runs.
        commands: command lines of the sweeps.
        suites: one section each.
        findings: all other sentences, by title of their paragraph.
        texts: pages on interleaving and on the devices of ranks, as HTML.
        environment: names and values.
        failures: kinds of failures, the harmless ones last.
        samples: by id of the row.
        unsampled: number of rows with samples; "" if all have some.
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
        """Text below the headline: the rest of the answers, and what was not measured."""
        first, *others = self.screen.answers or [""]
        first_rest = first.partition("; ")[2]
        return [*filter(None, (first_rest, *others)), *self.screen.unmeasured]

    @property
    def num_failed(self) -> int:
        """Number of failed cases, without harmless ones."""
        return sum(len(kind.names) for kind in self.failures if not kind.is_harmless)


def content_of(
    parts: ReportData, environments: Sequence[Facts], most_figures: int | None = MOST_FIGURES
) -> PageContent:
    """Collect the content of the page; skip a part that fails, with a line on stderr.

    Args:
        parts: report data with rows `with_ids`.
        environments: one per record.
        most_figures: largest number of figures; None for all.
    """
    table, screen = parts.table, parts.screen
    sampled = table[table["path"].isin(paths_sampled(parts))]
    samples = make_or_leave_out("samples", partial(samples_of, sampled)) or {}
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
    charts_by_module: Mapping[str, Charts], suites: Sequence[str], most: int | None
) -> tuple[dict[str, list[Chart]], dict[str, list[str]]]:
    """Choose the figures of each suite's section.

    Returns:
        By suite, the charts to draw, and notes on those that are not drawn.
    """
    charts: dict[str, list[Chart]] = {name: [] for name in suites}
    not_drawn: dict[str, list[str]] = {name: [] for name in suites}

    def section(chart: Chart) -> str:
        # Charts of plugin suites may lack their suite.
        return chart.suite if chart.suite in charts else suites[0]

    fitting: dict[str, Charts] = {}
    for module, of_module in charts_by_module.items():
        for name, chart in of_module.items():
            if reason := too_large(chart):
                not_drawn[section(chart)].append(f"{chart.title}: {reason}.")
            else:
                fitting.setdefault(module, {})[name] = chart
    kept, left_out = choose_figures(fitting, most)
    for of_module in kept.values():
        for chart in of_module.values():
            charts[section(chart)].append(chart)
    if left_out:
        not_drawn[suites[-1]].append(f"{left_out}.")
    return charts, not_drawn


def answer_table(grid: ScreenTable) -> str:
    """Return the first rows of the table of the answer, as HTML."""
    table = grid.table(grid.rows[:MOST_ROWS]).markdown()
    return as_html("\n\n".join([table, *truncation_lines(len(grid.rows))]), TEXT_LEVEL)


MOST_SAMPLED = 1000
"""Cases with samples on the page. Reading the records of thousands again takes most of the time."""


def paths_sampled(parts: ReportData) -> list[str]:
    """Choose the records with samples on the page: all, or of many evenly spaced points."""
    paths = list(dict.fromkeys(parts.measured["path"].dropna()))
    if len(parts.measured) > MOST_SAMPLED:
        paths = list(dict.fromkeys(parts.points["path"].dropna()))
        count = min(len(paths), round(len(paths) * MOST_SAMPLED / len(parts.points)))
        paths = [paths[round(place)] for place in np.linspace(0, len(paths) - 1, count)]
    return paths


def sampling_note(count: int, total: int) -> str:
    """Return a note on how many cases have samples on the page; "" if all have."""
    if count >= total:
        return ""
    return (
        f"{count:,} of {total:,} cases have their samples on this page. The page of the folders of "
        "some points has all of theirs: benchkit-analysis FOLDER ... --html"
    )


def other_paragraphs(paragraphs: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs that the page does not show elsewhere."""
    for title, lines in paragraphs.items():
        if lines and title not in HEAD:
            num_more = len(lines) - MOST_SENTENCES
            yield (
                title,
                lines[:MOST_SENTENCES] + [f"And {num_more} more like these."] * (num_more > 0),
            )


def commands_of(table: pd.DataFrame) -> Iterator[str]:
    """Yield the command line of each sweep, from its first record."""
    first = table.groupby("run", sort=False, dropna=False)["path"].first()
    commands = []
    for _, record in records_of(table[table["path"].isin(first)]):
        program, *arguments = record.environment.command or [""]
        program = "python -m benchkit" if program == MAIN else program
        arguments_shown = drop_resume_settings(arguments) or arguments
        commands.append(f"{program} {shlex.join(arguments_shown)}".strip())
    yield from dict.fromkeys(filter(None, commands))


def environment_of(environments: Sequence[Facts]) -> Iterator[tuple[str, str]]:
    """Yield names and values of hosts and software; differing values are joined."""
    for name in dict.fromkeys(name for facts in environments for name in facts):
        values = [facts[name] for facts in environments if facts.get(name) is not None]
        if values:
            yield name, summary(values, "")
