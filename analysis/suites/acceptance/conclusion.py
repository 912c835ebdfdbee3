"""Begins a report on an acceptance with its verdict."""

from collections.abc import Iterator

import pandas as pd

from analysis.records.of_suite import by_layout, records_of
from analysis.suites.acceptance.verdict import judge
from analysis.suites.pair_matrix import matrix
from analysis.suites.rank_speed import speeds
from benchkit.statistics.faults import Limits

CONCLUDED = (matrix.SUITE, speeds.SUITE)


def conclude(table: pd.DataFrame) -> Iterator[str]:
    """Yield the verdict on each set of ranks: its first line, and a line per finding."""
    records = [record for suite in CONCLUDED for record in records_of(table, suite)]
    limits = Limits()
    for _, own in by_layout(sorted(records, key=lambda record: record.started_at)):
        if verdict := judge(own, limits):
            yield from (line.removeprefix("- ") for line in verdict.lines(limits.tolerance))
