"""Matrix programs on one device and sharded over several."""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.auto_shard.config import AutoShardConfig

PRELOAD = ("benchkit.suites.auto_shard.cases",)


@suite
def auto_shard(config: AutoShardConfig, rank: Rank) -> list[Case]:
    """Matrix products, MLPs and element-wise work on one device and on several, phase by phase."""
    from benchkit.suites.auto_shard.cases import AutoShard

    return AutoShard(config, rank).cases()
