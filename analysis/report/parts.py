"""Data that several files of a report share, computed once, on first use."""

from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from analysis.report import sentences, sizes
from analysis.report.chart import PAGE_ROW, Charts, charts_of
from analysis.report.tables import rank_devices_table, turns_table
from analysis.screen.screen import Screen, screen_of
from analysis.shared.discover import make_or_leave_out, write_all
from analysis.shared.text import complain
from analysis.table.combine import identity_columns
from analysis.table.repetitions import aggregate_runs
from analysis.table.variants import Baseline


@dataclass(frozen=True, eq=False)
class ReportData:
    """The rows of a report, and the data derived from them.

    Attributes:
        table: the combined table.
        baseline: baseline of speedups; by default that of each suite.
        per_rank: one row per rank and case, for cases with values per rank.
        compare_at: further size in MiB at which backends are compared, beside the largest
            common one.
    """

    table: pd.DataFrame
    baseline: Baseline | None = None
    per_rank: pd.DataFrame = field(default_factory=pd.DataFrame)
    compare_at: float | None = None

    @cached_property
    def measured(self) -> pd.DataFrame:
        return self.table[self.table["status"] == "ok"]

    @cached_property
    def points(self) -> pd.DataFrame:
        """The measured rows, one per point, over all runs."""
        return aggregate_runs(self.measured, *identity_columns(self.table))

    @cached_property
    def screen(self) -> Screen:
        return screen_of(self.table, self.baseline)

    @cached_property
    def findings(self) -> dict[str, list[str]]:
        """Sentences by title of their paragraph; all sentences on noise are in `noise`."""
        paragraphs = sentences.findings(self.table, self.points)
        return {title: list(lines) for title, lines in paragraphs.items()}

    @cached_property
    def noise(self) -> list[str]:
        return list(sentences.noise_sentences(self.measured))

    @cached_property
    def turns(self) -> str | None:
        """The page on cases that were timed both interleaved and isolated."""
        return turns_table(self.table)

    @cached_property
    def rank_devices(self) -> str | None:
        """The page on the devices of ranks."""
        return rank_devices_table(self.per_rank)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The tables of all suites, by file name."""
        return dict(write_all(self.table, make_or_leave_out))

    def texts_of(self, suite: str) -> dict[str, str]:
        """The tables of one suite."""
        is_of_suite = self.table["suite"] == suite
        return (
            self.texts
            if is_of_suite.all()
            else dict(write_all(self.table[is_of_suite], make_or_leave_out))
        )

    @cached_property
    def charts(self) -> dict[str, Charts]:
        """Charts of all figures, by module."""
        further: Charts = {}
        if self.compare_at is not None:
            further = sizes.comparisons_at(self.table, self.compare_at)
            if not further:
                size = f"--compare-at {self.compare_at:g}"
                complain("analysis", f"{size}: no such data_size was measured")
        return charts_of(self.table, self.baseline, make_or_leave_out, further)


def with_ids(table: pd.DataFrame) -> pd.DataFrame:
    """Add the column PAGE_ROW, an id per row."""
    return table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})
