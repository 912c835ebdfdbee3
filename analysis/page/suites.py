"""Makes the section of each suite: its table, its figures, and the pages of its own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from analysis.baseline import Baseline
from analysis.page.figures import describe, figure_of, too_large
from analysis.page.markdown import as_html
from analysis.page.measurements import Measurements, Packed, measurements_of
from analysis.page.pictures import Picture, pictures_of
from analysis.report.attempts import or_left_out
from analysis.report.chart import PAGE_ROW, Chart
from analysis.report.discover import modules_with, write_all
from analysis.report.style import hardware

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
    data: dict[str, Any]


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


def suite_of(number: int, table: pd.DataFrame, baseline: Baseline | None, samples: Packed) -> Suite:
    """Make the section of a suite.

    Args:
        number: of the section.
        table: rows of this suite in the combined table, with PAGE_ROW.
        baseline: what speedups compare with; by default the suite has its own.
        samples: by PAGE_ROW.
    """
    charts = list(charts_of(table, baseline))
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


def charts_of(table: pd.DataFrame, baseline: Baseline | None) -> Iterator[Chart]:
    """Yield the charts that have points; each module is one attempt."""
    if not (table["status"] == "ok").any():
        return
    for name, module in modules_with("show"):
        make = partial(module.show, table, baseline)
        charts = or_left_out(f"figures of {name}", make) or {}
        yield from (with_hardware(chart, table) for chart in charts.values() if len(chart.points))


def with_hardware(chart: Chart, table: pd.DataFrame) -> Chart:
    """Add to a chart's note the processors or GPUs of its points, if it does not name them."""
    where = hardware(table[table[PAGE_ROW].isin(chart.points[PAGE_ROW])])
    if where.removeprefix("on ") in chart.note:
        return chart
    return replace(chart, note="; ".join(filter(None, (chart.note, where))))


def figure(place: str, chart: Chart) -> Figure | None:
    """Make a figure; None, with a line on stderr, where that fails."""
    data = or_left_out(f"figure {chart.title}", partial(figure_of, chart))
    if data is None:
        return None
    return Figure(place, chart.title, chart.note, describe(chart), len(chart.panels), data)
