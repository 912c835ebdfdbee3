"""What must be known beside the findings: what could be seen, what changed, what is missing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.suites.acceptance.findings import LINKS, Finding, Ranks, findings_of, sentence
from analysis.suites.acceptance.tables import LARGEST, Table
from analysis.suites.pair_matrix.matrix import Matrix
from analysis.suites.rank_speed.speeds import Speeds
from benchkit.record.record import Record
from benchkit.statistics.compare.spread import percent
from benchkit.statistics.faults.cells import Limits
from benchkit.statistics.faults.explain import explain, faster
from benchkit.statistics.faults.peers import Peers

DRIFT = 0.1
"""A second half that is this much slower or faster than the first is told."""
AMBIGUOUS = 0.3
"""From this share of its kind on, what is faster than the rest may be all that is healthy."""
MOST_LINES = 5


def sensitivity(ratios: Mapping[str, float]) -> Iterator[str]:
    """Say how slow a single link, rank or group must be to be found, and what has no peers.

    Args:
        ratios: from which each table finds it, by its name.
    """
    told = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio <= LARGEST]
    few = [name for name, ratio in ratios.items() if math.isinf(ratio)]
    unsteady = [name for name, ratio in ratios.items() if LARGEST < ratio < math.inf]
    if told:
        single = "A single link, rank or group is found nine times in ten from these ratios on"
        yield f"{single}: {', '.join(told)}."
    if few:
        yield f"Fewer than three of a kind, so without peers to compare with: {', '.join(few)}."
    if unsteady:
        large = f"Too few or too unsteady to see even {LARGEST:g} times"
        yield f"{large}: {', '.join(unsteady)}."


def coverage(matrices: Sequence[Matrix]) -> Iterator[str]:
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
    tables: Sequence[Table], limits: Limits, ranks: Ranks
) -> tuple[list[str], list[str]]:
    """Say what is faster than its peers: where it is a large part, perhaps they are all slow.

    Returns:
        Sentences on large parts, and on small ones.
    """
    unlike: list[str] = []
    few: list[str] = []
    for table in tables:
        faults = faster(table.halves, table.peers, limits)
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


def drifts(tables: Sequence[Table]) -> Iterator[str]:
    """Say which measurements changed from the first half, or run, to the second."""
    found = []
    for table in tables:
        change = float(np.expm1(np.median(table.changes)))
        if abs(change) > DRIFT:
            sign = "+" if change > 0 else "-"
            found.append(f"{table.name} {sign}{percent(abs(change))}")
    if found:
        yield f"Times of the second half, or run, beside the first: {', '.join(found)}."


def passing(tables: Sequence[Table], limits: Limits, ranks: Ranks) -> list[str]:
    """Say which ranks and groups were slower than their peers in one half only, by heat perhaps."""
    lines = []
    for table in tables:
        families = [each for each in table.peers.families if each.name not in LINKS]
        peers = Peers(table.peers.kinds, families)
        for half, change in (("second", table.changes), ("first", -table.changes)):
            faults = explain(np.stack([change, change]), peers, limits)
            found: list[Finding] = findings_of({table.name: faults}, ranks)
            lines += [
                f"In the {half} half, or run, beside the other one: {sentence(each, ranks)}"
                for each in found
            ]
    return at_most(lines)


def missing(matrices: Sequence[Matrix], tests: Sequence[Speeds], num_ranks: int) -> Iterator[str]:
    """Say what an acceptance measures and these tables lack."""
    if not tests:
        yield "single ranks (suite rank_speed)"
    if not matrices and num_ranks > 1:
        yield "pairs of ranks (suite pair_matrix)"
    if any(each.lacks_network for each in matrices):
        yield "pairs across nodes"


def skipped(records: Sequence[Record]) -> list[str]:
    """Say which cases were skipped in all records, and why."""
    cases = [case for record in records for case in record.cases]
    names = [", ".join(map(str, case.labels.values())) for case in cases]
    done = {name for name, case in zip(names, cases, strict=True) if case.samples_s}
    found = {
        name: f"{name} ({case.reason})"
        for name, case in zip(names, cases, strict=True)
        if case.status == "skipped" and name not in done
    }
    return at_most(list(found.values()))


def single_runs(*of_suites: Sequence[Record]) -> Iterator[str]:
    """Say where only one run was measured."""
    names = [records[0].suite for records in of_suites if len(records) == 1]
    if names:
        yield f"One run only of {' and '.join(names)}: what was slow that once is a finding, too."


def below_sheet(tests: Sequence[Speeds]) -> list[str]:
    """Say which ranks do not reach their share of the data sheet."""
    lines = []
    for test in tests:
        short = [
            (rate / promised.rate, place, promised)
            for place, rate, promised in zip(
                test.places, test.rates(), test.promises(), strict=True
            )
            if promised is not None and rate < promised.enough * promised.rate
        ]
        if short:
            short.sort(key=lambda each: each[0])
            places = at_most([f"{place}, {percent(share)}" for share, place, _ in short])
            names = "; ".join(places).rstrip(".")
            promised = short[0][2]
            lines.append(
                f"{test.name}: {len(short)} of {len(test.places)} ranks are below "
                f"{percent(promised.enough)} of the {promised.source}: {names}."
            )
    return lines
