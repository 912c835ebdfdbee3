"""A suite with two cases, one of which evicts the other's data from the caches: `measure.alone` has to find it."""

from dataclasses import dataclass

from benchkit.api.case import Case, Rank
from benchkit.api.keys import RunConfig, key
from benchkit.api.registry import suite


@dataclass
class EvictingConfig(RunConfig):
    resident_kib: int = key("what the baseline reads", unit="KiB", at_least=1)
    evicted_mib: int = key("what the other case writes, more than the last cache holds", unit="MiB", at_least=1)


@suite
def evicting(config: EvictingConfig, rank: Rank) -> list[Case]:
    """Time the sum of an array that fits into a cache, interleaved with writing one that does not."""
    import torch

    resident = torch.ones(config.resident_kib * 2**10 // 4)
    large = torch.empty(config.evicted_mib * 2**20 // 4)
    baseline = Case(step=resident.sum, labels={"case": "resident"})
    return [baseline, Case(step=lambda: large.fill_(1.0), labels={"case": "evicting"}, baseline=baseline)]
