"""The suite collective: the collectives of torch.distributed."""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.collective.config import CollectiveConfig, gradient_mib

PRELOAD = ("benchkit.suites.collective.cases",)
RESOLVERS = {"gradient_mib": gradient_mib}


@suite
def collective(config: CollectiveConfig, rank: Rank) -> list[Case]:
    """Time and bandwidth of a collective of torch.distributed."""
    from benchkit.suites.collective.cases import cases_of

    return cases_of(config, rank)
