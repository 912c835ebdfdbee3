"""The suite rank_speed: each rank alone, all at the same time."""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.rank_speed.config import RankSpeedConfig, by_device

PRELOAD = ("benchkit.suites.rank_speed.cases",)
RESOLVERS = {"by_device": by_device}


@suite
def rank_speed(config: RankSpeedConfig, rank: Rank) -> list[Case]:
    """Compute, memory, host to device and disk of every rank, all ranks at the same time."""
    from benchkit.suites.rank_speed.cases import cases_of

    return cases_of(config, rank)
