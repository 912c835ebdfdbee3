"""What several files of a report show, made once: where the first of them asks for it."""

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
    """The rows of a report, and what is made of them.

    Attributes:
        table: the combined table.
        baseline: what speedups compare with; by default each suite has its own.
        per_rank: one row per rank and case, of the cases that report their ranks.
        compare_at: a size in MiB at which backends are compared, beside the largest that all have.
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
        """The sentences of each paragraph, by its title; all of those on noise are in `noise`."""
        found = sentences.findings(self.table, self.points)
        return {title: list(lines) for title, lines in found.items()}

    @cached_property
    def noise(self) -> list[str]:
        return list(sentences.noise_sentences(self.measured))

    @cached_property
    def turns(self) -> str | None:
        """The page on the cases that were timed alone, too."""
        return turns_table(self.table)

    @cached_property
    def rank_devices(self) -> str | None:
        """The page on the ranks that have devices of their own."""
        return rank_devices_table(self.per_rank)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The suites' own tables, by file name."""
        return dict(write_all(self.table, make_or_leave_out))

    def texts_of(self, suite: str) -> dict[str, str]:
        """The tables of one suite."""
        is_own = self.table["suite"] == suite
        return (
            self.texts if is_own.all() else dict(write_all(self.table[is_own], make_or_leave_out))
        )

    @cached_property
    def charts(self) -> dict[str, Charts]:
        """What figures show, by the modules that show it."""
        more: Charts = {}
        if self.compare_at is not None:
            more = sizes.comparisons_at(self.table, self.compare_at)
            if not more:
                size = f"--compare-at {self.compare_at:g}"
                complain("analysis", f"{size}: no such data_size was measured")
        return charts_of(self.table, self.baseline, make_or_leave_out, more)


def with_ids(table: pd.DataFrame) -> pd.DataFrame:
    """Number the rows, for the page."""
    return table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})
