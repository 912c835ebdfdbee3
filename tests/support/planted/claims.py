"""Counts what is concluded of planted problems, and how much of it is false.

A claim is a judgement of a variant over the baseline, or of the fastest variant over the others. The share of problems
with a false claim is counted, since a problem is what the error rate of benchkit is of.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
from analysis.table.speedup import Standing, Variant
from analysis.table.variants import compare_suites
from benchkit.statistics.judgement import AHEAD, BEHIND, TIED

from tests.support.planted.conclusions import Planted, problem_of, table_of

EQUAL = 1e-9
"""Logarithms that differ by less are those of equal variants."""
MARGIN = math.log(1.05)
OVER_BASELINE = (AHEAD, BEHIND, TIED)
ANY, FASTEST, FASTEST_TIED, ALONE, STARS = "any of these", "fastest ahead", "fastest tied", "alone at the top", "stars"
KINDS = (*OVER_BASELINE, ANY, FASTEST, FASTEST_TIED, ALONE, STARS)
"""Of claims: over the baseline, of the fastest variant over others, over all others, and which variants have a star."""
MOST_FALSE = 0.05


def is_false(word: str, faster: float) -> bool:
    """Whether a judgement of a variant is false that is so many times as fast, as a logarithm."""
    if word == AHEAD:
        return faster <= EQUAL
    if word == BEHIND:
        return faster >= -EQUAL
    return word == TIED and abs(faster) > MARGIN + EQUAL


@dataclass
class Tally:
    """Counts over the problems of some cells.

    Attributes:
        claimed, false: problems with a claim of a kind, and with a false one.
        unlike: variants that are faster or slower than their baseline.
        found: those of them that are judged to be so.
    """

    problems: int = 0
    claimed: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    unlike: int = 0
    found: int = 0

    def add(self, other: "Tally") -> None:
        self.problems += other.problems
        self.claimed += other.claimed
        self.false += other.false
        self.unlike += other.unlike
        self.found += other.found

    def share_false(self, kind: str) -> float:
        return self.false[kind] / self.problems if self.problems else 0.0

    def excess(self, kind: str) -> float:
        """By how many standard errors more than MOST_FALSE of the problems have a false claim."""
        error = math.sqrt(MOST_FALSE * (1 - MOST_FALSE) / self.problems)
        return (self.share_false(kind) - MOST_FALSE) / error

    @property
    def power(self) -> float:
        return self.found / self.unlike if self.unlike else math.nan


def claims_of(
    own: Sequence[Variant], standing: Standing | None, truth: Mapping[str, float]
) -> Iterator[tuple[str, bool]]:
    """Yield the kind of each claim on a problem, and whether it is false.

    Args:
        truth: by the names of variants, how fast they are, as a logarithm.
    """
    for variant in own:
        if variant.speedup and variant.speedup.judgement in OVER_BASELINE:
            faster = truth[variant.name] - truth[variant.speedup.reference.name]
            yield variant.speedup.judgement, is_false(variant.speedup.judgement, faster)
    if standing is None:
        return
    first = truth[standing.fastest.name]
    for other, word in standing.judgements:
        if word in (AHEAD, TIED):
            yield (FASTEST if word == AHEAD else FASTEST_TIED), is_false(word, first - truth[other.name])
        elif word == BEHIND:
            yield FASTEST, True
    best = max(truth.values())
    if standing.is_ahead_of_all:
        yield ALONE, sum(each > first - EQUAL for each in truth.values()) > 1
    if standing.leaders:
        yield STARS, any(each > best - EQUAL and name not in standing.leaders for name, each in truth.items())


def tally_of(planted: Planted, table: pd.DataFrame | None = None) -> Tally:
    """Count the claims on all problems of a cell.

    Args:
        table: of the planted problems, however it was made.
    """
    [variants] = compare_suites(table_of(planted) if table is None else table).values()
    found = Tally()
    for number, own in variants.by_problem.items():
        truth = truth_of(planted, own)
        found.problems += 1
        claims = [*claims_of(own, variants.standings.get(number), truth)]
        found.claimed.update({kind for kind, _ in claims})
        false = {kind for kind, is_wrong in claims if is_wrong}
        found.false.update(false)
        found.claimed[ANY] += any(kind in OVER_BASELINE for kind, _ in claims)
        found.false[ANY] += any(kind in false for kind in OVER_BASELINE)
        for variant in own:
            faster = truth[variant.name] - truth[own[0].name]
            if variant.speedup and abs(faster) > EQUAL:
                found.unlike += 1
                found.found += variant.speedup.judgement == (AHEAD if faster > 0 else BEHIND)
    return found


def truth_of(planted: Planted, own: Sequence[Variant]) -> dict[str, float]:
    of_problem = planted.truth[problem_of(planted.layout, own[0].row)]
    return dict(zip(planted.layout.names, map(float, of_problem), strict=True))
