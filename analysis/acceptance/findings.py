"""Merge the faults of all tables of an acceptance into findings, one per cause."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from analysis.records.places import RankMapping, format_numbers
from analysis.suites.pair_matrix import matrix
from benchkit.statistics.faults import Fault, FaultLimits, PeerGroups, detectable_ratio
from benchkit.statistics.intervals import Array

LINKS = (matrix.ONE_WAY, matrix.LINK)
MESSAGES = "messages of"  # prefix of the names of pair tables, which can share a cause
PLACES = (matrix.RANK, matrix.NODE, matrix.SWITCH)
"""Groupings of causes; all others are levels of nested groups."""
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
"""Description of what is slow, by part of a family's name."""
Key = tuple[str, frozenset[int]]
"""Grouping and numbers of a cause; the ends of a link are unordered."""
WITHOUT_PEERS = "Fewer than three of a kind, so without peers to compare with"
LARGEST = 10.0  # a table without a smaller detectable ratio is not judged
STEADY = 2.0  # least difference of two peers, as a multiple of its change between halves
TRUSTED_SD = 3.0  # least difference of two peers, in standard deviations of noise
MAD_TO_SD = 1.4826  # standard deviation / median absolute deviation of a normal distribution


@dataclass(frozen=True)
class GroupedRanks:
    """The ranks of an acceptance and their groups.

    Attributes:
        groups: names of the groups, by grouping.
        group_of: number of each rank's group, by grouping: [rank].
    """

    places: Sequence[RankMapping]
    groups: Mapping[str, Sequence[str]]
    group_of: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Cause:
    """Cause of a fault: a rank, a group, or a link between two of either, the sender first."""

    grouping: str
    numbers: tuple[int, ...]

    @property
    def is_link(self) -> bool:
        return len(self.numbers) == 2


@dataclass
class FaultFinding:
    """A cause, with the families that show it, and the ratio to its peers' times by table."""

    cause: Cause
    parts: set[str] = field(default_factory=set)
    ratios: dict[str, float] = field(default_factory=dict)


def cause_of(fault: Fault, ranks: GroupedRanks) -> Cause:
    """Return the cause of a fault; for a link in both directions the lower number is first."""
    grouping, _, part = fault.family.partition(" ")
    if fault.family in LINKS:
        return Cause("rank", divmod(fault.subject, len(ranks.places)))
    if part in (matrix.BETWEEN, matrix.BETWEEN_ONE_WAY):
        return Cause(grouping, divmod(fault.subject, len(ranks.groups[grouping])))
    return Cause(grouping, (fault.subject,))


def findings_of(faults: Mapping[str, Sequence[Fault]], ranks: GroupedRanks) -> list[FaultFinding]:
    """Return the findings from the faults of each table, large ones first.

    A slow link with a slow end, or a slow rank in a slow group, is a consequence and not reported;
    only tables of the same kind explain each other. Nor is a nested group with a slow part
    reported. Both directions of a link are one finding.
    """
    finding_by_key: dict[Key, FaultFinding] = {}
    causes: dict[str, dict[Key, Cause]] = {}
    for table, of_table in faults.items():
        for fault in of_table:
            cause = cause_of(fault, ranks)
            key = cause.grouping, frozenset(cause.numbers)
            causes.setdefault(table_kind(table), {}).setdefault(key, cause)
            finding = finding_by_key.setdefault(key, FaultFinding(cause))
            if cause.numbers != finding.cause.numbers:
                finding.parts.add(matrix.LINK)
            finding.parts.add(fault.family)
            finding.ratios[table] = max(fault.ratio, finding.ratios.get(table, 0.0))
    for table in faults:
        of_kind = causes.get(table_kind(table), {})
        for key, cause in of_kind.items():
            if is_consequence(cause, of_kind.values(), ranks):
                finding_by_key[key].ratios.pop(table, None)
    kept = [each for each in finding_by_key.values() if each.ratios]
    return [each for each in kept if not has_slow_part(each, kept, ranks)]


def table_kind(table: str) -> str:
    """Return the kind of a table: all tables of messages are of one kind."""
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
    """Return whether another finding within a nested group explains that it is slow."""
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
    """Return the ranks of a cause; for a link, those of each end."""
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
    descriptions = {
        DIRECTIONS.get(part) or DIRECTIONS.get(part.partition(" ")[2]) for part in parts
    }
    only = descriptions.pop() if len(descriptions) == 1 else None
    return f"{names[0]}, in {only}" if only else names[0]


def name_of(grouping: str, number: int, ranks: GroupedRanks) -> str:
    if grouping == matrix.RANK:
        return str(ranks.places[number])
    group_of = ranks.group_of[grouping]
    of_group = [rank for rank, group in enumerate(group_of) if group == number]
    return f"{grouping} {ranks.groups[grouping][number]} (ranks {format_numbers(of_group)})"


@dataclass(frozen=True)
class JudgedTable:
    """Measured cells to be judged.

    Attributes:
        halves: logarithm of the median time of each cell in the first and in the second half of
            the samples, or of the runs: [2][cell].
        peers: kinds of the cells, and families of faults; the first one has a candidate per cell.
    """

    name: str
    halves: Array
    peers: PeerGroups

    @property
    def changes(self) -> Array:
        """Change of the logarithm of each cell from the first to the second half: [cell]."""
        return np.asarray(self.halves[1] - self.halves[0])

    def detectable_slowdown(self, limits: FaultLimits) -> float:
        """Return the smallest slowdown of a cell that is detected with a power of 0.9."""
        return detectable_ratio(self.halves, self.peers, limits) or math.inf

    def share_of(self, faults: Sequence[Fault]) -> float:
        """Return the number of faulty cells as a share of all cells of their kinds."""
        families = {family.name: family for family in self.peers.families}
        of_faults = [
            families[fault.family].cells[families[fault.family].subjects == fault.subject].ravel()
            for fault in faults
        ]
        faulty = np.unique(np.concatenate([np.array([-1]), *of_faults]))[1:]
        is_of_kind = np.isin(self.peers.kinds, self.peers.kinds[faulty])
        return len(faulty) / max(1, int(is_of_kind.sum()))

    def finding_of(self, cell: int, ratio: float, ranks: GroupedRanks) -> FaultFinding:
        single = self.peers.families[0]
        [position] = np.flatnonzero(single.cells[:, 0] == cell)
        fault = Fault(single.name, int(single.subjects[position]), ratio, math.nan, 1)
        return FaultFinding(cause_of(fault, ranks), {single.name}, {self.name: ratio})


def compare_single_peers(
    tables: Sequence[JudgedTable], limits: FaultLimits, ranks: GroupedRanks
) -> Iterator[str]:
    """Yield which of only two peers is slower, if both halves agree."""
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
    """Estimate the standard deviation of a cell's logarithm in a half, from changes in all tables.

    A single pair of values is too few for an estimate.
    """
    changes = np.concatenate([table.changes - np.median(table.changes) for table in tables])
    return MAD_TO_SD * float(np.median(np.abs(changes))) / math.sqrt(2)
