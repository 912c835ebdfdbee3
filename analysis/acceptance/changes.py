"""What changed between two acceptances of the same ranks: a rank, a link, a node, or all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.acceptance.findings import (
    WITHOUT_PEERS,
    FaultFinding,
    GroupedRanks,
    JudgedTable,
    describe_finding,
    findings_of,
)
from analysis.acceptance.verdict import ranks_of, tables_of
from analysis.records.places import RankPlace, places_of
from analysis.records.suite_rows import group_by_layout
from analysis.suites.pair_matrix import matrix
from analysis.suites.pair_matrix.matrix import PairTimes
from analysis.suites.rank_speed import speeds
from analysis.suites.rank_speed.speeds import Speeds
from benchkit.record.naming import percent
from benchkit.record.record import Record
from benchkit.statistics.faults import FaultLimits, detectable_ratio, find_faults

SLOWER, FASTER = 1, -1
MOST_NAMED = 8


@dataclass(frozen=True)
class Changes:
    """What changed.

    Attributes:
        slower, faster: what takes longer, or less, than before, beside the change of its peers.
        overall: by name of a table, the median of all its times over that before.
        without_peers: names of tables with fewer than three of a kind.
        not_compared: names of tables that were not measured alike both times.
        exchanged: ranks on another device than before, with that before.
    """

    slower: Sequence[FaultFinding]
    faster: Sequence[FaultFinding]
    overall: dict[str, float]
    without_peers: Sequence[str]
    not_compared: Sequence[str]
    exchanged: Sequence[tuple[RankPlace, RankPlace]]
    ranks: GroupedRanks

    def lines(self, tolerance: float) -> list[str]:
        lines = [
            f"- {describe_finding(finding, self.ranks)}: {word}, "
            f"beside the change of its peers: {text}."
            for word, findings in (("slower", self.slower), ("faster", self.faster))
            for finding in findings
            for text in [", ".join(f"{name} {ratio:.2f}" for name, ratio in finding.ratios.items())]
        ]
        if not self.overall:
            lines = ["- Nothing was measured both times."]
        elif not lines and len(self.without_peers) < len(self.overall):
            lines = [
                f"- No rank, link or node changed by {percent(tolerance)} more than its peers did."
            ]
        if self.overall:
            medians = ", ".join(f"{name} {ratio:.2f}" for name, ratio in self.overall.items())
            lines.append(f"- Times over those before, median of all: {medians}.")
        if self.without_peers:
            lines.append(f"- {WITHOUT_PEERS}: {', '.join(self.without_peers)}.")
        if self.not_compared:
            names = ", ".join(self.not_compared)
            lines.append(f"- Not measured alike both times, and not compared: {names}.")
        return [*lines, *self.exchanges()]

    def exchanges(self) -> list[str]:
        lines = [
            f"- {now}: another device than before ({before.uuid or before.device or 'unknown'})."
            for before, now in self.exchanged[:MOST_NAMED]
        ]
        if more := len(self.exchanged) - len(lines):
            lines.append(f"- {more} more ranks have other devices than before.")
        return lines


def changes(
    before: Sequence[Record], now: Sequence[Record], limits: FaultLimits
) -> Iterator[Changes | None]:
    """Compare acceptances cell by cell: each pair of ranks, each rank, with itself before.

    Ranks are the same where their hosts are; their devices may have been exchanged. Records are in
    order of time. Ranks of `now` that `before` does not have yield None.
    """
    earlier = {layout_of(records[0]): records for _, records in group_by_layout(list(before))}
    for _, records in group_by_layout(list(now)):
        if (old := earlier.get(layout_of(records[0]))) is None:
            yield None
            continue
        places = places_of(records[0])
        ranks = ranks_of(places, {})
        tables, not_compared = relative_tables(old, records, ranks)
        shared = replace(limits, alpha=limits.alpha / (2 * max(1, len(tables))))
        both = zip(places_of(old[0]), places, strict=True)
        yield Changes(
            slower=find_changes(tables, SLOWER, shared, ranks),
            faster=find_changes(tables, FASTER, shared, ranks),
            overall={each.name: float(np.exp(np.median(each.halves))) for each in tables},
            without_peers=[
                each.name
                for each in tables
                if not detectable_ratio(each.halves, each.peers, shared)
            ],
            not_compared=not_compared,
            exchanged=[(old, new) for old, new in both if device_of(old) != device_of(new)],
            ranks=ranks,
        )


def layout_of(record: Record) -> tuple[object, ...]:
    """Return what two acceptances must have in common."""
    settings = record.settings
    hosts = [place.host for place in places_of(record)]
    return *hosts, settings.backend.name, settings.hardware.device


def device_of(place: RankPlace) -> tuple[str, str]:
    return place.device, place.uuid


def find_changes(
    tables: Sequence[JudgedTable], direction: int, limits: FaultLimits, ranks: GroupedRanks
) -> list[FaultFinding]:
    faults = {
        each.name: find_faults(direction * each.halves, each.peers, limits) for each in tables
    }
    return findings_of(faults, ranks)


def relative_tables(
    before: Sequence[Record], now: Sequence[Record], ranks: GroupedRanks
) -> tuple[list[JudgedTable], list[str]]:
    """Return tables of each time over that before, and names of what was not measured alike."""
    (old_pairs, old_tests), (new_pairs, new_tests) = measured_in(before), measured_in(now)
    pairs = {
        key: pairs_over(old_pairs[key], new_pairs[key])
        for key in new_pairs.keys() & old_pairs.keys()
    }
    pairs = {key: table for key, table in sorted(pairs.items()) if table.halves.size}
    tests = {
        key: replace(each, halves=each.halves - old_tests[key].halves)
        for key, each in new_tests.items()
        if key in old_tests
    }
    other_pairs = [each for key, each in (old_pairs | new_pairs).items() if key not in pairs]
    other_tests = [each for key, each in (old_tests | new_tests).items() if key not in tests]
    names = dict.fromkeys(each.name for each in tables_of(other_pairs, other_tests, ranks))
    return tables_of(list(pairs.values()), list(tests.values()), ranks), list(names)


def measured_in(
    records: Sequence[Record],
) -> tuple[dict[tuple[float, bool], PairTimes], dict[tuple[str, float], Speeds]]:
    """Return the pairs by their key, and the tests by name and amount of a call."""
    return (
        {each.key: each for each in matrix.matrices(records)},
        {(each.name, each.amount): each for each in speeds.speeds(records)},
    )


def pairs_of(table: PairTimes) -> list[tuple[int, int]]:
    return list(zip(table.sender.tolist(), table.receiver.tolist(), strict=True))


def pairs_over(before: PairTimes, now: PairTimes) -> PairTimes:
    """Return the pairs that both measured, with each time over that before."""
    places = {pair: place for place, pair in enumerate(pairs_of(before))}
    old = np.array([places.get(pair, -1) for pair in pairs_of(now)], dtype=int)
    kept = old >= 0
    halves = now.halves[:, kept] - before.halves[:, old[kept]]
    cells = {name: getattr(now, name)[kept] for name in ("sender", "receiver", "time_slot")}
    return replace(now, halves=halves, **cells)
