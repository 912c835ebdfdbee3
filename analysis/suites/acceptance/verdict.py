"""The verdict of an acceptance: what is out of line among the ranks of one start, or nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.records.places import Place, numbered, places_of
from analysis.suites.acceptance.findings import Finding, Ranks, findings_of, sentence
from analysis.suites.pair_matrix import matrix
from analysis.suites.pair_matrix.families import NODE, SWITCH, Grouping
from analysis.suites.rank_speed import speeds
from benchkit.record.naming import readable
from benchkit.record.record import Record
from benchkit.statistics.compare.spread import percent
from benchkit.statistics.faults.cells import Cells, Family, Fault, Limits
from benchkit.statistics.faults.explain import detectable, explain

DRIFT = 0.1
"""A second half that is this much slower or faster than the first is told."""


@dataclass(frozen=True)
class Table:
    """What is judged: cells, and what may be slow."""

    name: str
    cells: Cells
    families: Sequence[Family]


@dataclass(frozen=True)
class Verdict:
    """The verdict.

    Attributes:
        ranks: that were judged.
        tables: by name, what was judged.
        findings: what is slower than its peers.
        below_sheet: what does not reach its share of the data sheet, one sentence each.
        remarks: what else must be known, one sentence each.
        is_judged: whether there were peers, or a data sheet.
    """

    ranks: Ranks
    tables: Sequence[Table]
    findings: Sequence[Finding]
    below_sheet: Sequence[str]
    remarks: Sequence[str]
    is_judged: bool

    @property
    def is_alike(self) -> bool:
        """Whether there was something to compare with, and nothing is out of line."""
        return self.is_judged and not (self.findings or self.below_sheet)

    def lines(self, tolerance: float) -> list[str]:
        """Return the verdict in sentences."""
        hosts = len({place.host for place in self.ranks.places})
        nodes = f"{hosts} node{'s' * (hosts != 1)}"
        count = len(self.tables)
        measured = f"{count} measurement{'s' * (count != 1)}"
        judged = f"{len(self.ranks.places)} ranks on {nodes}, {measured}"
        if not self.is_judged:
            head = f"NOT JUDGED: {judged}; no three of a kind to compare, and no data sheet."
        elif self.is_alike:
            head = f"ALL ALIKE: {judged}; nothing is {percent(tolerance)} slower than its peers."
        else:
            count = len(self.findings) + len(self.below_sheet)
            head = f"OUT OF LINE: {count} finding{'s' * (count != 1)}; {judged}."
        found = [sentence(finding, self.ranks) for finding in self.findings]
        return [head, *(f"- {line}" for line in (*found, *self.below_sheet)), *self.remarks]


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
    pair_records = [record for record in records if record.suite == matrix.SUITE]
    rank_records = [record for record in records if record.suite == speeds.SUITE]
    found = matrix.matrices(pair_records), speeds.speeds(rank_records)
    if not any(found):
        return None
    floor = max((each.noise_floor.sigma_run for each in records if each.noise_floor), default=0.0)
    ranks = ranks_of(places_of(records[0]), switches or {})
    return judge_tables(*found, ranks, replace(limits, floor=max(limits.floor, floor)))


def judge_tables(
    matrices: Sequence[matrix.Matrix],
    tests: Sequence[speeds.Speeds],
    ranks: Ranks,
    limits: Limits,
) -> Verdict:
    """Return the verdict on tables of the same ranks; there is at least one."""
    tables = tables_of(matrices, tests, ranks)
    shared = replace(limits, alpha=limits.alpha / len(tables))
    faults: dict[str, list[Fault]] = {
        table.name: explain(table.cells, table.families, shared) for table in tables
    }
    findings = findings_of(faults, ranks)
    remarks = [*sensitivity(tables, shared), *drifts(tables)]
    has_peers = any(detectable(each.cells, each.families, shared) for each in tables)
    has_sheet = any(any(test.promises()) for test in tests)
    is_judged = has_peers or has_sheet
    return Verdict(ranks, tables, findings, below_sheet(tests), remarks, is_judged)


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


def tables_of(
    matrices: Sequence[matrix.Matrix], tests: Sequence[speeds.Speeds], ranks: Ranks
) -> list[Table]:
    """Return all that is judged."""
    more = [
        Grouping(name, np.array(group_of))
        for name, group_of in ranks.group_of.items()
        if name == SWITCH
    ]
    of_pairs = [
        Table(f"messages of {readable(each.size_mib * 2**20)}", each.cells(), each.families(*more))
        for each in matrices
    ]
    return of_pairs + [Table(each.name, each.cells(), each.families()) for each in tests]


def sensitivity(tables: Sequence[Table], limits: Limits) -> list[str]:
    """Say how slow a single link or rank must be to be found, and what has no peers."""
    told, without = [], []
    for table in tables:
        ratio = detectable(table.cells, table.families, limits)
        if ratio is None:
            without.append(table.name)
        else:
            told.append(f"{table.name} {ratio:.2f}")
    lines = []
    if told:
        lines.append(f"A single link or rank is found from these ratios on: {', '.join(told)}.")
    if without:
        few = ", ".join(without)
        lines.append(f"Fewer than three of a kind, so without peers to compare with: {few}.")
    return lines


def drifts(tables: Sequence[Table]) -> list[str]:
    """Say which measurements changed from the first half, or run, to the second."""
    found = []
    for table in tables:
        change = float(np.expm1(np.median(table.cells.halves[1] - table.cells.halves[0])))
        if abs(change) > DRIFT:
            sign = "+" if change > 0 else "-"
            found.append(f"{table.name} {sign}{percent(abs(change))}")
    return [f"Times of the second half, or run, beside the first: {', '.join(found)}."][
        : len(found)
    ]


def below_sheet(tests: Sequence[speeds.Speeds]) -> list[str]:
    """Say which ranks do not reach their share of the data sheet."""
    lines = []
    for test in tests:
        short = [
            (place, rate / promised.rate, promised)
            for place, rate, promised in zip(
                test.places, test.rates(), test.promises(), strict=True
            )
            if promised is not None and rate < promised.enough * promised.rate
        ]
        if short:
            worst, share, promised = min(short, key=lambda each: each[1])
            lines.append(
                f"{test.name}: {len(short)} of {len(test.places)} ranks are below "
                f"{percent(promised.enough)} of the {promised.source}; least is {worst}, "
                f"{percent(share)}."
            )
    return lines
