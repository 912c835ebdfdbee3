"""The verdict of an acceptance: what is out of line among the ranks of one start, or nothing."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta

from analysis.acceptance.findings import (
    LARGEST,
    LINKS,
    MESSAGES,
    WITHOUT_PEERS,
    FaultFinding,
    GroupedRanks,
    JudgedTable,
    compare_single_peers,
    findings_of,
    sentence,
)
from analysis.records.places import RankPlace, number_labels, places_of
from analysis.records.suite_rows import group_by_layout, records_of
from analysis.suites.pair_matrix import matrix
from analysis.suites.pair_matrix.matrix import NODE, SWITCH, Grouping, Level, PairTimes
from analysis.suites.rank_speed import speeds
from analysis.suites.rank_speed.speeds import Speeds, peaks_of
from benchkit.record.naming import percent
from benchkit.record.record import CaseRecord, Record
from benchkit.statistics.faults import FaultLimits, PeerGroups, find_fast_outliers, find_faults
from benchkit.suites.pair_matrix.suite import IDLE, ROUND
from benchkit.suites.rank_speed.suite import FLOPS

SUITES = (matrix.SUITE, speeds.SUITE)
CONCLUDED = SUITES
DRIFT = 0.1  # a second half that is this much slower or faster than the first is told
AMBIGUOUS = 0.3
"""From this share of its kind on, what is faster than the rest may be all that is healthy."""
MOST_LINES = 5
Amount = Annotated[float, Meta(gt=0, le=1e30)]


@dataclass(frozen=True)
class AcceptanceVerdict:
    """The verdict.

    Attributes:
        findings: what is slower than its peers.
        below_sheet: what does not reach its share of the data sheet.
        unlike: what differs, where its peers do not tell which is right.
        missing: what an acceptance measures and these records lack.
        has_peers, has_sheet: whether there was anything to compare with.
    """

    ranks: GroupedRanks
    tables: Sequence[JudgedTable]
    findings: Sequence[FaultFinding]
    below_sheet: Sequence[str]
    unlike: Sequence[str]
    missing: Sequence[str]
    remarks: Sequence[str]
    has_peers: bool
    has_sheet: bool

    @property
    def is_alike(self) -> bool:
        """Whether everything was measured and compared, and nothing is out of line."""
        differs = self.findings or self.below_sheet or self.unlike
        return not (differs or self.missing) and (self.has_peers or self.has_sheet)

    def lines(self, tolerance: float) -> list[str]:
        found = [sentence(finding, self.ranks) for finding in self.findings]
        every = (*found, *self.below_sheet, *self.unlike)
        return [self.head(tolerance), *(f"- {line}" for line in every), *self.remarks]

    def head(self, tolerance: float) -> str:
        hosts = len({place.host for place in self.ranks.places})
        parts = (len(self.ranks.places), "rank"), (hosts, "node"), (len(self.tables), "measurement")
        ranks, nodes, measured = (f"{count} {word}{'s' * (count != 1)}" for count, word in parts)
        judged = f"{ranks} on {nodes}, {measured}"
        if count := len(self.findings) + len(self.below_sheet):
            return f"OUT OF LINE: {count} finding{'s' * (count != 1)}; {judged}."
        if self.unlike:
            return f"UNLIKE: {judged}; which side is right, so few peers do not tell."
        if not (self.has_peers or self.has_sheet):
            return f"NOT JUDGED: {judged}; too few of a kind to compare, and no data sheet."
        if self.missing:
            lacking = "; ".join(self.missing)
            return f"INCOMPLETE: {judged}; nothing is out of line in them. Not measured: {lacking}."
        if not self.has_peers:
            return f"AS ON THE DATA SHEET: {judged}; too few of a kind to compare."
        return f"ALL ALIKE: {judged}; nothing is {percent(tolerance)} slower than its peers."


def judge(
    records: Sequence[Record], limits: FaultLimits, switches: Mapping[str, str] | None = None
) -> AcceptanceVerdict | None:
    """Judge records of the same ranks, in order of time; None where they hold nothing to judge.

    The chance of a false finding is shared among the tables. The noise floor of the records is a
    limit, too.
    """
    matrices, tests = matrix.matrices(records), speeds.speeds(records)
    if not matrices and not tests:
        return None
    floor = max((each.noise_floor.sigma_run for each in records if each.noise_floor), default=0.0)
    levels = matrix.levels(records)
    ranks = with_levels(ranks_of(places_of(records[0]), switches or {}), levels)
    verdict = judge_tables(
        matrices, tests, ranks, replace(limits, floor=max(limits.floor, floor)), levels
    )
    missing = [*missing_parts(matrices, tests, len(ranks.places)), *skipped(records)]
    return replace(verdict, missing=missing, remarks=[*verdict.remarks, *single_runs(records)])


def judge_tables(
    matrices: Sequence[PairTimes],
    tests: Sequence[Speeds],
    ranks: GroupedRanks,
    limits: FaultLimits,
    levels: Sequence[Level] = (),
) -> AcceptanceVerdict:
    """Judge tables of the same ranks, of which there is at least one."""
    tables = tables_of(matrices, tests, ranks, levels)
    # Half of alpha is for what is slower than its peers, half for what is faster.
    shared = replace(limits, alpha=limits.alpha / (2 * len(tables)))
    faults = {each.name: find_faults(each.halves, each.peers, shared) for each in tables}
    least = {each.name: each.detectable_log_ratio(shared) for each in tables}
    unlike, fast = faster_sides([each for each in tables if not faults[each.name]], shared, ranks)
    return AcceptanceVerdict(
        ranks=ranks,
        tables=tables,
        findings=findings_of(faults, ranks),
        below_sheet=below_sheet(tests),
        unlike=[*compare_single_peers(tables, limits, ranks), *unlike],
        missing=(),
        remarks=[
            *sensitivity(least),
            *coverage(matrices),
            *fast,
            *drifts(tables),
            *transient_faults(tables, shared, ranks),
        ],
        has_peers=min(least.values()) <= LARGEST,
        has_sheet=any(any(test.promises()) for test in tests),
    )


def ranks_of(places: Sequence[RankPlace], switches: Mapping[str, str]) -> GroupedRanks:
    """Return the ranks with their nodes, and with their switches where all are known."""
    labels = {NODE: [place.host for place in places]}
    if all(place.host in switches for place in places):
        labels[SWITCH] = [switches[place.host] for place in places]
    return GroupedRanks(
        places=places,
        groups={name: list(dict.fromkeys(each)) for name, each in labels.items()},
        group_of={name: number_labels(each) for name, each in labels.items()},
    )


def with_levels(ranks: GroupedRanks, levels: Sequence[Level]) -> GroupedRanks:
    names = {each.name: [f"group {n}" for n in range(len(each.seconds))] for each in levels}
    group_of = {each.name: each.group_of for each in levels}
    return replace(ranks, groups={**ranks.groups, **names}, group_of={**ranks.group_of, **group_of})


def tables_of(
    matrices: Sequence[PairTimes],
    tests: Sequence[Speeds],
    ranks: GroupedRanks,
    levels: Sequence[Level] = (),
) -> list[JudgedTable]:
    known = ranks.group_of.get(SWITCH)
    switch = Grouping(SWITCH, np.array(known)) if known else None
    tables = []
    for pairs in matrices:
        tables.append(JudgedTable(f"{MESSAGES} {pairs.name}", pairs.halves, pairs.peers(switch)))
    tables += [JudgedTable(test.name, test.halves, test.peers()) for test in tests]
    for level in levels:
        tables.append(JudgedTable(f"all-reduce of {level.name}", level.halves, level.peers()))
    return tables


def conclude(table: pd.DataFrame) -> Iterator[str]:
    """Yield the verdict on each set of ranks: its first line, and a line per finding."""
    records = [record for suite in CONCLUDED for record in records_of(table, suite)]
    limits = FaultLimits()
    for _, alike in group_by_layout(sorted(records, key=lambda record: record.started_at)):
        if verdict := judge(alike, limits):
            yield from (line.removeprefix("- ") for line in verdict.lines(limits.tolerance))


def sensitivity(ratios: Mapping[str, float]) -> Iterator[str]:
    """Say how slow a single link, rank or group must be to be found, and what has no peers."""
    telling = [f"{name} {ratio:.2f} ×" for name, ratio in ratios.items() if ratio <= LARGEST]
    few = [name for name, ratio in ratios.items() if math.isinf(ratio)]
    unsteady = [name for name, ratio in ratios.items() if LARGEST < ratio < math.inf]
    if telling:
        single = "Smallest slowdown of a link, rank or group that is found nine times in ten"
        yield f"{single}: {', '.join(telling)}."
    if few:
        yield f"{WITHOUT_PEERS}: {', '.join(few)}."
    if unsteady:
        large = f"Too few or too unsteady to see even {LARGEST:g} times"
        yield f"{large}: {', '.join(unsteady)}."


def coverage(matrices: Sequence[PairTimes]) -> Iterator[str]:
    """Say which share of pairs was measured, and what two nodes do not tell."""
    least = min((each.share for each in matrices), default=1.0)
    if least < 1:
        yield (
            f"{percent(least)} of all pairs were measured; a single slow link among the others is "
            "not seen."
        )
    if any(each.node.max() == 1 for each in matrices):
        yield "With two nodes, the network of neither has a peer."


def faster_sides(
    tables: Sequence[JudgedTable], limits: FaultLimits, ranks: GroupedRanks
) -> tuple[list[str], list[str]]:
    """Say what is faster than its peers: large parts, whose peers may be slow, and small ones."""
    unlike: list[str] = []
    few: list[str] = []
    for table in tables:
        faults = find_fast_outliers(table.halves, table.peers, limits)
        inverse = [replace(fault, ratio=1 / fault.ratio) for fault in faults]
        lines = [sentence(each, ranks) for each in findings_of({table.name: inverse}, ranks)]
        if table.share_of(faults) >= AMBIGUOUS:
            unlike += at_most(lines)
        else:
            few += [f"Faster than its peers: {line}" for line in at_most(lines)]
    return unlike, few


def at_most(lines: Sequence[str]) -> list[str]:
    """Return the first lines; the last one counts those that are left out."""
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more} more like it."] if more > 0 else [])]


def drifts(tables: Sequence[JudgedTable]) -> Iterator[str]:
    found = []
    for table in tables:
        change = float(np.expm1(np.median(table.changes)))
        if abs(change) > DRIFT:
            sign = "+" if change > 0 else "-"
            found.append(f"{table.name} {sign}{percent(abs(change))}")
    if found:
        yield f"Not steady: time of the second half, or run, over the first: {', '.join(found)}."


def transient_faults(
    tables: Sequence[JudgedTable], limits: FaultLimits, ranks: GroupedRanks
) -> list[str]:
    """Say which ranks and groups were slower than their peers in one half only, by heat perhaps."""
    lines = []
    for table in tables:
        families = [each for each in table.peers.families if each.name not in LINKS]
        peers = PeerGroups(table.peers.kinds, families)
        for half, change in (("second", table.changes), ("first", -table.changes)):
            faults = find_faults(np.stack([change, change]), peers, limits)
            found: list[FaultFinding] = findings_of({table.name: faults}, ranks)
            lines += [
                f"In the {half} half, or run, beside the other one: {sentence(each, ranks)}"
                for each in found
            ]
    return at_most(lines)


def missing_parts(
    matrices: Sequence[PairTimes], tests: Sequence[Speeds], num_ranks: int
) -> Iterator[str]:
    if not tests:
        yield "single ranks (suite rank_speed)"
    if not matrices and num_ranks > 1:
        yield "pairs of ranks (suite pair_matrix)"
    if any(each.lacks_network for each in matrices):
        yield "pairs across nodes"


def skipped(records: Sequence[Record]) -> list[str]:
    cases = [case for record in records for case in record.cases]
    names = [", ".join(map(str, case.labels.values())) for case in cases]
    done = {name for name, case in zip(names, cases, strict=True) if case.samples_s}
    found = {
        name: f"{name} ({case.reason})"
        for name, case in zip(names, cases, strict=True)
        if case.status == "skipped" and name not in done
    }
    return at_most(list(found.values()))


def single_runs(records: Sequence[Record]) -> Iterator[str]:
    runs = Counter(record.suite for record in records)
    names = [suite for suite in SUITES if runs[suite] == 1]
    if names:
        yield f"One run only of {' and '.join(names)}: what was slow that once is a finding, too."


def below_sheet(tests: Sequence[Speeds]) -> list[str]:
    lines = []
    for test in tests:
        short = [
            (rate / promised.rate, place, promised)
            for place, rate, promised in zip(
                test.places, test.rates(), test.promises(), strict=True
            )
            if promised is not None and rate < promised.min_share * promised.rate
        ]
        if short:
            short.sort(key=lambda each: each[0])
            places = at_most([f"{place}, {percent(share)}" for share, place, _ in short])
            names = "; ".join(places).rstrip(".")
            promised = short[0][2]
            lines.append(
                f"{test.name}: {len(short)} of {len(test.places)} ranks are below "
                f"{percent(promised.min_share)} of the {promised.source}: {names}."
            )
    return lines


class RoundLabels(msgspec.Struct):
    """Labels of a round of pair_matrix."""

    data_size: float


class RoundDetails(msgspec.Struct):
    sends_to: list[Annotated[int, Meta(ge=IDLE)]]


class SpeedLabels(msgspec.Struct):
    test: str
    dtype: str | None = None


class ComputeDetails(msgspec.Struct):
    flops_per_rank: Amount


class MoveDetails(msgspec.Struct):
    moved_bytes: Amount


def check(record: Record) -> None:
    """Raise ValueError for a record of pair_matrix or rank_speed that cannot be judged."""
    is_pairs = record.suite == matrix.SUITE
    try:
        msgspec.convert(peaks_of(record), dict[str, dict[str, Amount]])
    except ValueError as error:
        raise ValueError(f"hardware.peak_tflop_per_s: {error}") from None
    for case in record.cases:
        if not case.samples_s or (is_pairs and ROUND not in case.labels):
            continue
        try:
            (check_round if is_pairs else check_test)(case)
        except ValueError as error:
            raise ValueError(f"case {case.labels}: {error}") from None


def check_round(case: CaseRecord) -> None:
    """Raise ValueError for a round that does not say which rank sends to which."""
    msgspec.convert(case.labels, RoundLabels)
    receivers = msgspec.convert(case.details, RoundDetails).sends_to
    ranks = len(case.samples_s)
    if len(receivers) != ranks:
        raise ValueError(
            f"`sends_to` has {len(receivers)} entries; allowed is one per rank: {ranks}"
        )
    if (last := max(receivers)) >= ranks:
        raise ValueError(f"`sends_to` has rank {last}; allowed are ranks below {ranks}")


def check_test(case: CaseRecord) -> None:
    """Raise ValueError for a test that does not say what it computes or moves."""
    msgspec.convert(case.labels, SpeedLabels)
    msgspec.convert(case.details, ComputeDetails if FLOPS in case.details else MoveDetails)
