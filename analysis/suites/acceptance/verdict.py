"""The verdict of an acceptance: what is out of line among the ranks of one start, or nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.records.places import Place, numbered, places_of
from analysis.suites.acceptance import remarks
from analysis.suites.acceptance.findings import MESSAGES, Finding, Ranks, findings_of, sentence
from analysis.suites.acceptance.tables import LARGEST, Table, two_of_a_kind
from analysis.suites.pair_matrix import matrix
from analysis.suites.pair_matrix.families import NODE, SWITCH, Grouping
from analysis.suites.rank_speed import speeds
from benchkit.record.naming import readable
from benchkit.record.record import Record
from benchkit.statistics.compare.spread import percent
from benchkit.statistics.faults.cells import Limits
from benchkit.statistics.faults.explain import explain

SUITES = (matrix.SUITE, speeds.SUITE)


@dataclass(frozen=True)
class Verdict:
    """The verdict.

    Attributes:
        ranks: that were judged.
        tables: what was judged.
        findings: what is slower than its peers.
        below_sheet: what does not reach its share of the data sheet, one sentence each.
        unlike: what differs, where its peers do not tell which is right, one sentence each.
        missing: what an acceptance measures and these records lack, a phrase each.
        remarks: what else must be known, one sentence each.
        has_peers, has_sheet: whether there was anything to compare with.
    """

    ranks: Ranks
    tables: Sequence[Table]
    findings: Sequence[Finding]
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
        """Return the verdict in sentences."""
        found = [sentence(finding, self.ranks) for finding in self.findings]
        every = (*found, *self.below_sheet, *self.unlike)
        return [self.head(tolerance), *(f"- {line}" for line in every), *self.remarks]

    def head(self, tolerance: float) -> str:
        """Return the verdict in one sentence."""
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
    records: Sequence[Record], limits: Limits, switches: Mapping[str, str] | None = None
) -> Verdict | None:
    """Return the verdict on records of the same ranks; None where they hold nothing to judge.

    The chance of a false finding is shared among the tables.

    Args:
        records: of pair_matrix and rank_speed, in order of time.
        limits: what counts as out of line; the noise floor of the records counts, too.
        switches: the switch of each host, where that is known.
    """
    pair_records, rank_records = (
        [record for record in records if record.suite == suite] for suite in SUITES
    )
    matrices, tests = matrix.matrices(pair_records), speeds.speeds(rank_records)
    if not matrices and not tests:
        return None
    floor = max((each.noise_floor.sigma_run for each in records if each.noise_floor), default=0.0)
    levels = matrix.levels(pair_records)
    ranks = with_levels(ranks_of(places_of(records[0]), switches or {}), levels)
    verdict = judge_tables(
        matrices, tests, ranks, replace(limits, floor=max(limits.floor, floor)), levels
    )
    missing = [*remarks.missing(matrices, tests, len(ranks.places)), *remarks.skipped(records)]
    single = remarks.single_runs(pair_records, rank_records)
    return replace(verdict, missing=missing, remarks=[*verdict.remarks, *single])


def judge_tables(
    matrices: Sequence[matrix.Matrix],
    tests: Sequence[speeds.Speeds],
    ranks: Ranks,
    limits: Limits,
    levels: Sequence[matrix.Level] = (),
) -> Verdict:
    """Return the verdict on tables of the same ranks; there is at least one."""
    tables = [*tables_of(matrices, tests, ranks), *map(table_of, levels)]
    # Half of alpha is for what is slower than its peers, half for what is faster.
    shared = replace(limits, alpha=limits.alpha / (2 * len(tables)))
    faults = {each.name: explain(each.halves, each.peers, shared) for each in tables}
    least = {each.name: each.least_found(shared) for each in tables}
    unlike, fast = remarks.faster_sides(
        [each for each in tables if not faults[each.name]], shared, ranks
    )
    return Verdict(
        ranks=ranks,
        tables=tables,
        findings=findings_of(faults, ranks),
        below_sheet=remarks.below_sheet(tests),
        unlike=[*two_of_a_kind(tables, limits, ranks), *unlike],
        missing=(),
        remarks=[
            *remarks.sensitivity(least),
            *remarks.coverage(matrices),
            *fast,
            *remarks.drifts(tables),
            *remarks.passing(tables, shared, ranks),
        ],
        has_peers=min(least.values()) <= LARGEST,
        has_sheet=any(any(test.promises()) for test in tests),
    )


def ranks_of(places: Sequence[Place], switches: Mapping[str, str]) -> Ranks:
    """Return the ranks with their nodes, and with their switches where all are known."""
    labels = {NODE: [place.host for place in places]}
    if all(place.host in switches for place in places):
        labels[SWITCH] = [switches[place.host] for place in places]
    return Ranks(
        places=places,
        groups={name: list(dict.fromkeys(each)) for name, each in labels.items()},
        group_of={name: numbered(each) for name, each in labels.items()},
    )


def with_levels(ranks: Ranks, levels: Sequence[matrix.Level]) -> Ranks:
    """Return the ranks with their nested groups, too."""
    names = {each.name: [f"group {n}" for n in range(len(each.seconds))] for each in levels}
    group_of = {each.name: each.group_of for each in levels}
    return replace(ranks, groups={**ranks.groups, **names}, group_of={**ranks.group_of, **group_of})


def tables_of(
    matrices: Sequence[matrix.Matrix], tests: Sequence[speeds.Speeds], ranks: Ranks
) -> list[Table]:
    """Return what is judged of pairs and of single ranks."""
    known = ranks.group_of.get(SWITCH)
    switch = Grouping(SWITCH, np.array(known)) if known else None
    names = [f"{MESSAGES} {readable(each.size_mib * 2**20)}" for each in matrices]
    of_pairs = [
        Table(name, each.halves, each.peers(switch))
        for name, each in zip(names, matrices, strict=True)
    ]
    return of_pairs + [Table(each.name, each.halves, each.peers()) for each in tests]


def table_of(level: matrix.Level) -> Table:
    """Return what is judged of the groups of a level."""
    return Table(f"all-reduce of {level.name}", level.halves, level.peers())
