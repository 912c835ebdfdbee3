"""The suite pair_matrix: what every pair of ranks can do, in both directions."""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.pair_matrix.config import PairMatrixConfig

PRELOAD = ("benchkit.suites.pair_matrix.cases",)


@suite
def pair_matrix(config: PairMatrixConfig, rank: Rank) -> list[Case]:
    """Time of a message and its answer for every pair of ranks, in rounds of disjoint pairs."""
    from benchkit.suites.pair_matrix.cases import cases_of

    return cases_of(config, rank)
