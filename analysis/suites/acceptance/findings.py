"""Joins the faults of all tables of an acceptance into findings: one per cause, in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.records.places import Place
from analysis.suites.pair_matrix import families as pairs
from benchkit.statistics.faults.cells import Fault

LINKS = (pairs.ONE_WAY, pairs.LINK)
DIRECTIONS = {
    pairs.RANK_SENDS: "what it sends",
    pairs.RANK_RECEIVES: "what it receives",
    pairs.SENDS: "what it sends to others",
    pairs.RECEIVES: "what it receives from others",
    pairs.NETWORK: "what it exchanges with others, not what stays inside",
}
"""What is slow, of a family that is about a part of what a rank or a group does."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of an acceptance and their groups.

    Attributes:
        places: of the ranks.
        groups: by grouping, the name of each group, such as a node's or a switch's.
        group_of: by grouping, the number of each rank's group: [rank].
    """

    places: Sequence[Place]
    groups: Mapping[str, Sequence[str]]
    group_of: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Cause:
    """What a fault is about: a rank, a group, or two of either.

    Attributes:
        grouping: "rank", or the name of a grouping.
        numbers: of the rank or group; of both ends of a link, the sender first.
    """

    grouping: str
    numbers: tuple[int, ...]

    @property
    def is_link(self) -> bool:
        return len(self.numbers) == 2


@dataclass
class Finding:
    """One cause.

    Attributes:
        cause: what is slow.
        parts: families that found it.
        ratios: by name of a table, how many times as long it takes as its peers.
    """

    cause: Cause
    parts: set[str] = field(default_factory=set)
    ratios: dict[str, float] = field(default_factory=dict)


def cause_of(fault: Fault, ranks: Ranks) -> Cause:
    """Return what a fault is about; of a link in both directions the lower number is first."""
    grouping, _, part = fault.family.partition(" ")
    if fault.family in LINKS:
        return Cause("rank", divmod(fault.subject, len(ranks.places)))
    if part in (pairs.BETWEEN, pairs.BETWEEN_ONE_WAY):
        return Cause(grouping, divmod(fault.subject, len(ranks.groups[grouping])))
    return Cause(grouping, (fault.subject,))


def findings_of(faults: Mapping[str, Sequence[Fault]], ranks: Ranks) -> list[Finding]:
    """Return the findings, what is large first.

    A link whose end is slow itself, or a rank whose group is, is no finding but a consequence. Both
    directions of a link are one finding.

    Args:
        faults: of each table, by its name.
        ranks: of the acceptance.
    """
    found: dict[tuple[str, frozenset[int]], Finding] = {}
    for table, own in faults.items():
        for fault in own:
            cause = cause_of(fault, ranks)
            key = cause.grouping, frozenset(cause.numbers)
            finding = found.setdefault(key, Finding(cause))
            if cause.numbers != finding.cause.numbers:
                finding.parts.add(pairs.LINK)
            finding.parts.add(fault.family)
            finding.ratios[table] = max(fault.ratio, finding.ratios.get(table, 0.0))
    return [each for each in found.values() if not is_consequence(each, found.values(), ranks)]


def is_consequence(finding: Finding, others: Iterable[Finding], ranks: Ranks) -> bool:
    """Return whether the cause of another finding contains this one."""
    mine = members(finding.cause, ranks)
    for other in others:
        if other is finding or other.cause.is_link:
            continue
        [theirs] = members(other.cause, ranks)
        if finding.cause.is_link and any(end <= theirs for end in mine):
            return True
        if not finding.cause.is_link and mine[0] < theirs:
            return True
    return False


def members(cause: Cause, ranks: Ranks) -> list[set[int]]:
    """Return the ranks of a cause, or of each end of a link."""
    if cause.grouping == pairs.RANK:
        return [{number} for number in cause.numbers]
    group_of = ranks.group_of[cause.grouping]
    return [
        {rank for rank, group in enumerate(group_of) if group == number} for number in cause.numbers
    ]


def sentence(finding: Finding, ranks: Ranks) -> str:
    """Name the cause, with all that a ticket needs, and how much slower it is than its peers."""
    slower = ", ".join(f"{table} {ratio:.2f}" for table, ratio in finding.ratios.items())
    return f"{named(finding, ranks)}: times its peers' time: {slower}."


def named(finding: Finding, ranks: Ranks) -> str:
    """Name what is slow, and in which direction."""
    cause, parts = finding.cause, finding.parts
    names = [name_of(cause.grouping, number, ranks) for number in cause.numbers]
    if cause.is_link:
        one_way = parts <= {pairs.ONE_WAY, f"{cause.grouping} {pairs.BETWEEN_ONE_WAY}"}
        way = "from {} to {}, in this direction" if one_way else "between {} and {}, both ways"
        return f"the link {way.format(*names)}"
    of_family = {part.removeprefix(f"{cause.grouping} ") for part in parts if part in DIRECTIONS}
    of_family |= {part.partition(" ")[2] for part in parts} & set(DIRECTIONS)
    if len(parts) == 1 and of_family:
        [part] = parts
        what = DIRECTIONS.get(part) or DIRECTIONS[part.partition(" ")[2]]
        return f"{names[0]}, in {what}"
    return names[0]


def name_of(grouping: str, number: int, ranks: Ranks) -> str:
    """Name a rank or a group with its ranks."""
    if grouping == pairs.RANK:
        return str(ranks.places[number])
    group_of = ranks.group_of[grouping]
    own = [str(rank) for rank, group in enumerate(group_of) if group == number]
    some = ", ".join(own) if len(own) < 9 else f"{own[0]} to {own[-1]}"
    return f"{grouping} {ranks.groups[grouping][number]} (ranks {some})"
