"""What changed between two acceptances of the same ranks: a rank, a link, a node, or all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from analysis.records.of_suite import by_layout
from analysis.records.places import places_of
from analysis.suites.acceptance.findings import Finding, Ranks, findings_of, named
from analysis.suites.acceptance.tables import Table
from analysis.suites.acceptance.verdict import ranks_of, tables_of
from analysis.suites.pair_matrix import matrix
from analysis.suites.pair_matrix.matrix import Matrix
from analysis.suites.rank_speed import speeds
from analysis.suites.rank_speed.speeds import Speeds
from benchkit.record.record import Record
from benchkit.statistics.compare.spread import percent
from benchkit.statistics.faults.cells import Limits
from benchkit.statistics.faults.explain import explain

SUITES = (matrix.SUITE, speeds.SUITE)
SLOWER, FASTER = 1, -1
Found = TypeVar("Found", Matrix, Speeds)


@dataclass(frozen=True)
class Changes:
    """What changed.

    Attributes:
        slower: what takes longer than before, beside the change of its peers.
        faster: what takes less.
        overall: by name of a table, the median of all its times over that before.
        ranks: of both acceptances.
    """

    slower: Sequence[Finding]
    faster: Sequence[Finding]
    overall: dict[str, float]
    ranks: Ranks

    def lines(self, tolerance: float) -> list[str]:
        """Return the changes in sentences."""
        lines = [
            f"- {named(finding, self.ranks)}: {word}, beside the change of its peers: {text}."
            for word, findings in (("slower", self.slower), ("faster", self.faster))
            for finding in findings
            for text in [", ".join(f"{name} {ratio:.2f}" for name, ratio in finding.ratios.items())]
        ]
        if not lines:
            lines = [
                f"- No rank, link or node changed by {percent(tolerance)} more than its peers did."
            ]
        medians = ", ".join(f"{name} {ratio:.2f}" for name, ratio in self.overall.items())
        return [*lines, f"- Times over those before, median of all: {medians}."]


def changes(
    before: Sequence[Record], now: Sequence[Record], limits: Limits
) -> Iterator[Changes | None]:
    """Compare acceptances cell by cell: each pair of ranks, each rank, with itself before.

    Args:
        before, now: records of pair_matrix and rank_speed, in order of time.
        limits: what counts as a change.

    Yields:
        The changes of each set of ranks in `now`; None where `before` did not measure that.
    """
    earlier = {tuple(places_of(own[0])): own for _, own in by_layout(list(before))}
    for _, own in by_layout(list(now)):
        ranks = ranks_of(places_of(own[0]), {})
        tables = relative(earlier.get(tuple(places_of(own[0])), []), own, ranks)
        if not tables:
            yield None
            continue
        shared = replace(limits, alpha=limits.alpha / (2 * len(tables)))
        yield Changes(
            found_in(tables, SLOWER, shared, ranks),
            found_in(tables, FASTER, shared, ranks),
            {each.name: float(np.exp(np.median(each.cells.halves))) for each in tables},
            ranks,
        )


def found_in(
    tables: Sequence[Table], direction: int, limits: Limits, ranks: Ranks
) -> list[Finding]:
    """Return what changed in a direction."""
    faults = {}
    for table in tables:
        cells = replace(table.cells, halves=direction * table.cells.halves)
        faults[table.name] = explain(cells, table.families, limits)
    return findings_of(faults, ranks)


def relative(before: Sequence[Record], now: Sequence[Record], ranks: Ranks) -> list[Table]:
    """Return the tables of what both measured, with each time over that before."""
    old, new = ([each for each in side if each.suite == matrix.SUITE] for side in (before, now))
    sizes = {each.size_mib: each for each in matrix.matrices(old)}
    pairs = [
        pairs_over(sizes[each.size_mib], each)
        for each in matrix.matrices(new)
        if each.size_mib in sizes
    ]
    old, new = ([each for each in side if each.suite == speeds.SUITE] for side in (before, now))
    tests = {each.name: each for each in speeds.speeds(old)}
    ratios = [
        replace(each, halves=each.halves - tests[each.name].halves)
        for each in speeds.speeds(new)
        if each.name in tests
    ]
    return tables_of(pairs, ratios, ranks)


def pairs_of(table: Matrix) -> list[tuple[int, int]]:
    """Return sender and receiver of each cell."""
    return list(zip(table.sender.tolist(), table.receiver.tolist(), strict=True))


def pairs_over(before: Matrix, now: Matrix) -> Matrix:
    """Return the pairs that both measured, with each time over that before."""
    places = {pair: place for place, pair in enumerate(pairs_of(before))}
    old = np.array([places.get(pair, -1) for pair in pairs_of(now)], dtype=int)
    kept = old >= 0
    halves = now.halves[:, kept] - before.halves[:, old[kept]]
    return replace(now, sender=now.sender[kept], receiver=now.receiver[kept], halves=halves)
