"""Joins the faults of all tables of an acceptance into findings: one per cause, in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.records.places import Place, listed
from analysis.suites.pair_matrix import families as pairs
from benchkit.statistics.faults.cells import Fault

LINKS = (pairs.ONE_WAY, pairs.LINK)
MESSAGES = "messages of"
"""Begins the names of tables of pairs, which one cause may slow all."""
PLACES = (pairs.RANK, pairs.NODE, pairs.SWITCH)
"""Groupings of causes; further ones are levels of nested groups."""
DIRECTIONS = {
    pairs.RANK_SENDS: "what it sends",
    pairs.RANK_RECEIVES: "what it receives",
    pairs.RANK_NETWORK: "what it exchanges with other nodes",
    pairs.SENDS: "what it sends to others",
    pairs.RECEIVES: "what it receives from others",
    pairs.NETWORK: "what it exchanges with others, not what stays inside",
    pairs.INSIDE: "what stays inside",
    pairs.NEAR: "what it exchanges with others at its switch",
}
"""What is slow, of a family that is about a part of what a rank or a group does."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of an acceptance and their groups.

    Attributes:
        places: of the ranks.
        groups: by grouping, the name of each group: of nodes, of switches, of levels of nested
            groups.
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


Key = tuple[str, frozenset[int]]
"""Grouping and numbers of a cause, whichever end of a link is first."""


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

    A link whose end is slow itself, or a rank whose group is, is no finding but a consequence, of
    the same table or of other messages: a slow disk slows no link. Nor is a nested group with a
    slow part. Both directions of a link are one finding.

    Args:
        faults: of each table, by its name.
        ranks: of the acceptance.
    """
    found: dict[Key, Finding] = {}
    causes: dict[str, dict[Key, Cause]] = {}
    for table, own in faults.items():
        for fault in own:
            cause = cause_of(fault, ranks)
            key = cause.grouping, frozenset(cause.numbers)
            causes.setdefault(about(table), {}).setdefault(key, cause)
            finding = found.setdefault(key, Finding(cause))
            if cause.numbers != finding.cause.numbers:
                finding.parts.add(pairs.LINK)
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


def is_consequence(cause: Cause, others: Iterable[Cause], ranks: Ranks) -> bool:
    """Return whether another cause contains this one."""
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


def has_slow_part(finding: Finding, others: Sequence[Finding], ranks: Ranks) -> bool:
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
    what = {DIRECTIONS.get(part) or DIRECTIONS.get(part.partition(" ")[2]) for part in parts}
    only = what.pop() if len(what) == 1 else None
    return f"{names[0]}, in {only}" if only else names[0]


def name_of(grouping: str, number: int, ranks: Ranks) -> str:
    """Name a rank or a group with its ranks."""
    if grouping == pairs.RANK:
        return str(ranks.places[number])
    group_of = ranks.group_of[grouping]
    own = [rank for rank, group in enumerate(group_of) if group == number]
    return f"{grouping} {ranks.groups[grouping][number]} (ranks {listed(own)})"
