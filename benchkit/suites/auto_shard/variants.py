"""The variants of a job: which rule shards the workload, over how many devices, in which scope."""

from dataclasses import dataclass

from benchkit.suites.auto_shard.names import (
    COMMUNICATE,
    COMPUTE,
    END_TO_END,
    INDEPENDENT,
    RANKS,
    SCOPE,
    SHARDING,
    UNSHARDED,
    Phase,
    Scope,
    Sharding,
)


@dataclass(frozen=True)
class Variant:
    """What distinguishes a case from the others of its job.

    Attributes:
        sharding: the rule by which the workload is sharded.
        devices: the number of devices.
        scope: what a step includes.
    """

    sharding: Sharding
    devices: int
    scope: Scope

    @property
    def labels(self) -> dict[str, str | int | float]:
        return {SHARDING: str(self.sharding), RANKS: self.devices, SCOPE: str(self.scope)}

    @property
    def regions(self) -> tuple[str, ...]:
        """The phases of a step."""
        phases = Phase if self.end_to_end else (COMPUTE, COMMUNICATE)
        return tuple(map(str, phases))

    @property
    def end_to_end(self) -> bool:
        return self.scope == END_TO_END

    @property
    def alone(self) -> bool:
        """Whether each of its devices computes a whole workload."""
        return self.sharding in (UNSHARDED, INDEPENDENT)
