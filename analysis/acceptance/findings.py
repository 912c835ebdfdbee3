"""Join the faults of all tables of an acceptance into findings: one per cause."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from analysis.records.places import RankPlace, format_numbers
from analysis.suites.pair_matrix import matrix
from benchkit.statistics.faults import Fault, FaultLimits, PeerGroups, detectable_ratio
from benchkit.statistics.intervals import Array

LINKS = (matrix.ONE_WAY, matrix.LINK)
MESSAGES = "messages of"  # begins the names of tables of pairs, all of which one cause may slow
PLACES = (matrix.RANK, matrix.NODE, matrix.SWITCH)
"""Groupings of causes; further ones are levels of nested groups."""
DIRECTIONS = {
    matrix.RANK_SENDS: "what it sends",
    matrix.RANK_RECEIVES: "what it receives",
    matrix.RANK_NETWORK: "what it exchanges with other nodes",
    matrix.SENDS: "what it sends to others",
    matrix.RECEIVES: "what it receives from others",
    matrix.NETWORK: "what it exchanges with others, not what stays inside",
    matrix.INSIDE: "what stays inside",
    matrix.NEAR: "what it exchanges with others at its switch",
}
"""By part of a family's name: what is slow."""
Key = tuple[str, frozenset[int]]
"""Grouping and numbers of a cause, whichever end of a link is first."""
WITHOUT_PEERS = "Fewer than three of a kind, so without peers to compare with"
LARGEST = 10.0  # a table in which no smaller ratio is found does not tell whether all are alike
STEADY = 2.0  # how many times the change from half to half a difference between only two must be
TRUSTED_SD = 3.0  # how many standard deviations of noise such a difference must be
MAD_TO_SD = 1.4826  # standard deviation over the median deviation, of normal values


@dataclass(frozen=True)
class GroupedRanks:
    """The ranks of an acceptance and their groups.

    Attributes:
        groups: by grouping, the name of each group.
        group_of: by grouping, the number of each rank's group: [rank].
    """

    places: Sequence[RankPlace]
    groups: Mapping[str, Sequence[str]]
    group_of: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Cause:
    """What a fault is about: a rank, a group, or a link of two of either, the sender first."""

    grouping: str
    numbers: tuple[int, ...]

    @property
    def is_link(self) -> bool:
        return len(self.numbers) == 2


@dataclass
class FaultFinding:
    """One cause, with the families that found it and, by table, its times over its peers'."""

    cause: Cause
    parts: set[str] = field(default_factory=set)
    ratios: dict[str, float] = field(default_factory=dict)


def cause_of(fault: Fault, ranks: GroupedRanks) -> Cause:
    """Return what a fault is about; of a link in both directions the lower number is first."""
    grouping, _, part = fault.family.partition(" ")
    if fault.family in LINKS:
        return Cause("rank", divmod(fault.subject, len(ranks.places)))
    if part in (matrix.BETWEEN, matrix.BETWEEN_ONE_WAY):
        return Cause(grouping, divmod(fault.subject, len(ranks.groups[grouping])))
    return Cause(grouping, (fault.subject,))


def findings_of(faults: Mapping[str, Sequence[Fault]], ranks: GroupedRanks) -> list[FaultFinding]:
    """Return the findings, what is large first, from the faults of each table.

    A link whose end is slow itself, or a rank whose group is, is no finding but a consequence, of
    the same table or of other messages: a slow disk slows no link. Nor is a nested group with a
    slow part. Both directions of a link are one finding.
    """
    found: dict[Key, FaultFinding] = {}
    causes: dict[str, dict[Key, Cause]] = {}
    for table, own in faults.items():
        for fault in own:
            cause = cause_of(fault, ranks)
            key = cause.grouping, frozenset(cause.numbers)
            causes.setdefault(about(table), {}).setdefault(key, cause)
            finding = found.setdefault(key, FaultFinding(cause))
            if cause.numbers != finding.cause.numbers:
                finding.parts.add(matrix.LINK)
            finding.parts.add(fault.family)
            finding.ratios[table] = max(fault.ratio, finding.ratios.get(table, 0.0))
    for table in faults:
        together = causes.get(about(table), {})
        for key, cause in together.items():
            if is_consequence(cause, together.values(), ranks):
                found[key].ratios.pop(table, None)
    kept = [each for each in found.values() if each.ratios]
    return [each for each in kept if not has_slow_part(each, kept, ranks)]


def about(table: str) -> str:
    """Return what a table is about: all tables of messages are about the same links."""
    return MESSAGES if table.startswith(MESSAGES) else table


def is_consequence(cause: Cause, others: Iterable[Cause], ranks: GroupedRanks) -> bool:
    mine = members(cause, ranks)
    for other in others:
        if other is cause or other.is_link:
            continue
        [theirs] = members(other, ranks)
        if cause.is_link and any(end <= theirs for end in mine):
            return True
        if not cause.is_link and mine[0] < theirs:
            return True
    return False


def has_slow_part(
    finding: FaultFinding, others: Sequence[FaultFinding], ranks: GroupedRanks
) -> bool:
    """Return whether a nested group is slow because of another finding that is within it."""
    if finding.cause.grouping in PLACES:
        return False
    [mine] = members(finding.cause, ranks)
    for other in others:
        theirs = set[int]().union(*members(other.cause, ranks))
        is_smaller = other.cause.grouping in PLACES or theirs < mine
        if other is not finding and is_smaller and theirs & mine:
            return True
    return False


def members(cause: Cause, ranks: GroupedRanks) -> list[set[int]]:
    """Return the ranks of a cause, or of each end of a link."""
    if cause.grouping == matrix.RANK:
        return [{number} for number in cause.numbers]
    group_of = ranks.group_of[cause.grouping]
    return [
        {rank for rank, group in enumerate(group_of) if group == number} for number in cause.numbers
    ]


def sentence(finding: FaultFinding, ranks: GroupedRanks) -> str:
    slower = ", ".join(f"{table} {ratio:.2f}" for table, ratio in finding.ratios.items())
    return f"{describe_finding(finding, ranks)}: times its peers' time: {slower}."


def describe_finding(finding: FaultFinding, ranks: GroupedRanks) -> str:
    cause, parts = finding.cause, finding.parts
    names = [name_of(cause.grouping, number, ranks) for number in cause.numbers]
    if cause.is_link:
        one_way = parts <= {matrix.ONE_WAY, f"{cause.grouping} {matrix.BETWEEN_ONE_WAY}"}
        way = "from {} to {}, in this direction" if one_way else "between {} and {}, both ways"
        return f"the link {way.format(*names)}"
    what = {DIRECTIONS.get(part) or DIRECTIONS.get(part.partition(" ")[2]) for part in parts}
    only = what.pop() if len(what) == 1 else None
    return f"{names[0]}, in {only}" if only else names[0]


def name_of(grouping: str, number: int, ranks: GroupedRanks) -> str:
    if grouping == matrix.RANK:
        return str(ranks.places[number])
    group_of = ranks.group_of[grouping]
    of_group = [rank for rank, group in enumerate(group_of) if group == number]
    return f"{grouping} {ranks.groups[grouping][number]} (ranks {format_numbers(of_group)})"


@dataclass(frozen=True)
class JudgedTable:
    """What is judged.

    Attributes:
        halves: logarithm of the median time of each cell over the first and over the second half
            of the samples, or of the runs: [2][cell].
        peers: of the cells, and what may be slow; the first family has a candidate per cell.
    """

    name: str
    halves: Array
    peers: PeerGroups

    @property
    def changes(self) -> Array:
        """Change of the logarithm of each cell from the first half to the second: [cell]."""
        return np.asarray(self.halves[1] - self.halves[0])

    def detectable_log_ratio(self, limits: FaultLimits) -> float:
        """Return from which ratio on a cell is found nine times in ten."""
        return detectable_ratio(self.halves, self.peers, limits) or math.inf

    def share_of(self, faults: Sequence[Fault]) -> float:
        """Return the share of the cells of faults among all cells of their kinds."""
        families = {each.name: each for each in self.peers.families}
        of_faults = [
            families[fault.family].cells[families[fault.family].subjects == fault.subject].ravel()
            for fault in faults
        ]
        every = np.unique(np.concatenate([np.array([-1]), *of_faults]))[1:]
        is_alike = np.isin(self.peers.kinds, self.peers.kinds[every])
        return len(every) / max(1, int(is_alike.sum()))

    def finding_of(self, cell: int, ratio: float, ranks: GroupedRanks) -> FaultFinding:
        single = self.peers.families[0]
        [position] = np.flatnonzero(single.cells[:, 0] == cell)
        fault = Fault(single.name, int(single.subjects[position]), ratio, math.nan, 1)
        return FaultFinding(cause_of(fault, ranks), {single.name}, {self.name: ratio})


def compare_single_peers(
    tables: Sequence[JudgedTable], limits: FaultLimits, ranks: GroupedRanks
) -> Iterator[str]:
    """Say which of only two of a kind is slower, where both halves show it alike."""
    noise = TRUSTED_SD * math.sqrt(2) * max(limits.floor, noise_of(tables))
    for table in tables:
        for kind in np.unique(table.peers.kinds):
            cells = np.flatnonzero(table.peers.kinds == kind)
            if len(cells) != 2:
                continue
            first, second = table.halves[:, cells[0]] - table.halves[:, cells[1]]
            least = min(abs(first), abs(second))
            limit = max(math.log1p(limits.tolerance), noise, STEADY * abs(first - second))
            if first * second > 0 and least >= limit:
                slow = int(cells[0] if first > 0 else cells[1])
                ratio = math.exp(abs(first + second) / 2)
                name = describe_finding(table.finding_of(slow, ratio, ranks), ranks)
                yield f"{name} takes {ratio:.2f} times as long as its only peer: {table.name}."


def noise_of(tables: Sequence[JudgedTable]) -> float:
    """Return the standard deviation of a cell's logarithm in a half, by its changes in all tables.

    Two values alone do not tell how much they vary.
    """
    changes = np.concatenate([table.changes - np.median(table.changes) for table in tables])
    return MAD_TO_SD * float(np.median(np.abs(changes))) / math.sqrt(2)
