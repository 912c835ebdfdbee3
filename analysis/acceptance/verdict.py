"""The verdict of an acceptance: faults among the ranks of one job, or none."""

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
from analysis.records.places import RankMapping, number_labels, places_of
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
DRIFT = 0.1  # relative change of the second half above which a drift is reported
AMBIGUOUS = 0.3
"""Share of fast cells of a kind from which on the others may be the faulty ones."""
MOST_LINES = 5
Amount = Annotated[float, Meta(gt=0, le=1e30)]


@dataclass(frozen=True)
class AcceptanceVerdict:
    """The verdict.

    Attributes:
        findings: causes that are slower than their peers.
        below_sheet: sentences on rates below the share of the data sheet.
        unlike: sentences on differences without enough peers to decide which side is faulty.
        missing: parts of an acceptance that these records lack.
        has_peers, has_sheet: whether there are peers, or data sheets, to compare with.
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
        """Whether everything was measured and compared, without any fault."""
        differs = self.findings or self.below_sheet or self.unlike
        return not (differs or self.missing) and (self.has_peers or self.has_sheet)

    def lines(self, tolerance: float) -> list[str]:
        slower = [sentence(finding, self.ranks) for finding in self.findings]
        all_lines = (*slower, *self.below_sheet, *self.unlike)
        return [self.head(tolerance), *(f"- {line}" for line in all_lines), *self.remarks]

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
    """Judge records of the same ranks, in order of time; None without measurements.

    Alpha is divided among the tables. The noise floor of the records is a further limit.
    """
    matrices, tests = matrix.matrices(records), speeds.speeds(records)
    if not matrices and not tests:
        return None
    floor = max(
        (record.noise_floor.sigma_run for record in records if record.noise_floor), default=0.0
    )
    levels = matrix.levels(records)
    ranks = with_levels(ranks_of(places_of(records[0]), switches or {}), levels)
    verdict = judge_tables(
        matrices, tests, ranks, replace(limits, floor=max(limits.floor, floor)), levels
    )
    missing = [*missing_parts(matrices, tests, len(ranks.places)), *skipped_cases(records)]
    return replace(verdict, missing=missing, remarks=[*verdict.remarks, *single_runs(records)])


def judge_tables(
    matrices: Sequence[PairTimes],
    tests: Sequence[Speeds],
    ranks: GroupedRanks,
    limits: FaultLimits,
    levels: Sequence[Level] = (),
) -> AcceptanceVerdict:
    """Judge at least one table of the same ranks."""
    tables = tables_of(matrices, tests, ranks, levels)
    # Half of alpha is for slow outliers, half for fast ones.
    shared = replace(limits, alpha=limits.alpha / (2 * len(tables)))
    faults = {table.name: find_faults(table.halves, table.peers, shared) for table in tables}
    least = {table.name: table.detectable_slowdown(shared) for table in tables}
    unlike, fast = fast_outliers(
        [table for table in tables if not faults[table.name]], shared, ranks
    )
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
        has_sheet=any(any(test.sheet_rates()) for test in tests),
    )


def ranks_of(places: Sequence[RankMapping], switches: Mapping[str, str]) -> GroupedRanks:
    """Return the ranks with their nodes, and with their switches if all are known."""
    labels = {NODE: [place.host for place in places]}
    if all(place.host in switches for place in places):
        labels[SWITCH] = [switches[place.host] for place in places]
    return GroupedRanks(
        places=places,
        groups={name: list(dict.fromkeys(names)) for name, names in labels.items()},
        group_of={name: number_labels(names) for name, names in labels.items()},
    )


def with_levels(ranks: GroupedRanks, levels: Sequence[Level]) -> GroupedRanks:
    names = {level.name: [f"group {n}" for n in range(len(level.seconds))] for level in levels}
    group_of = {level.name: level.group_of for level in levels}
    return replace(ranks, groups={**ranks.groups, **names}, group_of={**ranks.group_of, **group_of})


def tables_of(
    matrices: Sequence[PairTimes],
    tests: Sequence[Speeds],
    ranks: GroupedRanks,
    levels: Sequence[Level] = (),
) -> list[JudgedTable]:
    switch_of_rank = ranks.group_of.get(SWITCH)
    switch = Grouping(SWITCH, np.array(switch_of_rank)) if switch_of_rank else None
    tables = []
    for pairs in matrices:
        tables.append(JudgedTable(f"{MESSAGES} {pairs.name}", pairs.halves, pairs.peers(switch)))
    tables += [JudgedTable(test.name, test.halves, test.peers()) for test in tests]
    for level in levels:
        tables.append(JudgedTable(f"all-reduce of {level.name}", level.halves, level.peers()))
    return tables


def conclude(table: pd.DataFrame) -> Iterator[str]:
    """Yield the verdict on each set of ranks: a headline, and a line per finding."""
    records = [record for suite in CONCLUDED for record in records_of(table, suite)]
    limits = FaultLimits()
    for _, same_ranks in group_by_layout(sorted(records, key=lambda record: record.started_at)):
        if verdict := judge(same_ranks, limits):
            yield from (line.removeprefix("- ") for line in verdict.lines(limits.tolerance))


def sensitivity(ratios: Mapping[str, float]) -> Iterator[str]:
    """Yield the smallest detectable slowdown of each table, and the tables without peers."""
    detectable = [f"{name} {ratio:.2f} ×" for name, ratio in ratios.items() if ratio <= LARGEST]
    few = [name for name, ratio in ratios.items() if math.isinf(ratio)]
    unsteady = [name for name, ratio in ratios.items() if LARGEST < ratio < math.inf]
    if detectable:
        single = "Smallest slowdown of a link, rank or group that is found nine times in ten"
        yield f"{single}: {', '.join(detectable)}."
    if few:
        yield f"{WITHOUT_PEERS}: {', '.join(few)}."
    if unsteady:
        large = f"Too few or too unsteady to see even {LARGEST:g} times"
        yield f"{large}: {', '.join(unsteady)}."


def coverage(matrices: Sequence[PairTimes]) -> Iterator[str]:
    """Yield remarks on pairs that were not measured, and on the limits of two nodes."""
    least = min((pairs.share for pairs in matrices), default=1.0)
    if least < 1:
        yield (
            f"{percent(least)} of all pairs were measured; a single slow link among the others is "
            "not seen."
        )
    if any(pairs.node.max() == 1 for pairs in matrices):
        yield "With two nodes, the network of neither has a peer."


def fast_outliers(
    tables: Sequence[JudgedTable], limits: FaultLimits, ranks: GroupedRanks
) -> tuple[list[str], list[str]]:
    """Return sentences on fast outliers: large parts, whose peers may be faulty, and small ones."""
    unlike: list[str] = []
    fast: list[str] = []
    for table in tables:
        faults = find_fast_outliers(table.halves, table.peers, limits)
        inverse = [replace(fault, ratio=1 / fault.ratio) for fault in faults]
        lines = [sentence(finding, ranks) for finding in findings_of({table.name: inverse}, ranks)]
        if table.share_of(faults) >= AMBIGUOUS:
            unlike += truncate_lines(lines)
        else:
            fast += [f"Faster than its peers: {line}" for line in truncate_lines(lines)]
    return unlike, fast


def truncate_lines(lines: Sequence[str]) -> list[str]:
    """Return the first lines, and a last one that counts the others."""
    num_more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {num_more} more like it."] if num_more > 0 else [])]


def drifts(tables: Sequence[JudgedTable]) -> Iterator[str]:
    changed = []
    for table in tables:
        change = float(np.expm1(np.median(table.changes)))
        if abs(change) > DRIFT:
            sign = "+" if change > 0 else "-"
            changed.append(f"{table.name} {sign}{percent(abs(change))}")
    if changed:
        yield f"Not steady: time of the second half, or run, over the first: {', '.join(changed)}."


def transient_faults(
    tables: Sequence[JudgedTable], limits: FaultLimits, ranks: GroupedRanks
) -> list[str]:
    """Return sentences on ranks and groups that are slow in one half only, such as by heat."""
    lines = []
    for table in tables:
        families = [each for each in table.peers.families if each.name not in LINKS]
        peers = PeerGroups(table.peers.kinds, families)
        for half, change in (("second", table.changes), ("first", -table.changes)):
            faults = find_faults(np.stack([change, change]), peers, limits)
            findings: list[FaultFinding] = findings_of({table.name: faults}, ranks)
            lines += [
                f"In the {half} half, or run, beside the other one: {sentence(each, ranks)}"
                for each in findings
            ]
    return truncate_lines(lines)


def missing_parts(
    matrices: Sequence[PairTimes], tests: Sequence[Speeds], num_ranks: int
) -> Iterator[str]:
    if not tests:
        yield "single ranks (suite rank_speed)"
    if not matrices and num_ranks > 1:
        yield "pairs of ranks (suite pair_matrix)"
    if any(pairs.lacks_network for pairs in matrices):
        yield "pairs across nodes"


def skipped_cases(records: Sequence[Record]) -> list[str]:
    cases = [case for record in records for case in record.cases]
    names = [", ".join(map(str, case.labels.values())) for case in cases]
    measured = {name for name, case in zip(names, cases, strict=True) if case.samples_s}
    line_by_name = {
        name: f"{name} ({case.reason})"
        for name, case in zip(names, cases, strict=True)
        if case.status == "skipped" and name not in measured
    }
    return truncate_lines(list(line_by_name.values()))


def single_runs(records: Sequence[Record]) -> Iterator[str]:
    runs = Counter(record.suite for record in records)
    names = [suite for suite in SUITES if runs[suite] == 1]
    if names:
        yield f"One run only of {' and '.join(names)}: what was slow that once is a finding, too."


def below_sheet(tests: Sequence[Speeds]) -> list[str]:
    lines = []
    for test in tests:
        below = [
            (rate / sheet.rate, place, sheet)
            for place, rate, sheet in zip(
                test.places, test.rates(), test.sheet_rates(), strict=True
            )
            if sheet is not None and rate < sheet.min_share * sheet.rate
        ]
        if below:
            below.sort(key=lambda each: each[0])
            places = truncate_lines([f"{place}, {percent(share)}" for share, place, _ in below])
            names = "; ".join(places).rstrip(".")
            sheet = below[0][2]
            lines.append(
                f"{test.name}: {len(below)} of {len(test.places)} ranks are below "
                f"{percent(sheet.min_share)} of the {sheet.source}: {names}."
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
