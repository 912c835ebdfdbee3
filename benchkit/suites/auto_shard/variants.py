"""The variants of a job: which rule shards the workload, over how many devices, in which scope."""

from dataclasses import dataclass

ONE, INDEPENDENT, DISPATCHER = "none", "independent", "dispatcher"
"""Values of `sharding` besides the planners of DTensor.

On one device; a whole workload of its own on each device; GT's architecture.
"""
RESIDENT, END_TO_END = "resident", "end_to_end"
"""Values of `scope`.

Operands and result stay on the devices; or operands are created, and the result is fetched.
"""


@dataclass(frozen=True)
class Variant:
    """What distinguishes a case from the others of its job.

    Attributes:
        sharding: the rule by which the workload is sharded.
        devices: the number of devices.
        scope: what a step includes.
    """

    sharding: str
    devices: int
    scope: str

    @property
    def labels(self) -> dict[str, str | int | float]:
        return {"sharding": self.sharding, "ranks": self.devices, "scope": self.scope}

    @property
    def name(self) -> str:
        return f"{self.sharding} {self.devices} {self.scope}"

    @property
    def end_to_end(self) -> bool:
        return self.scope == END_TO_END

    @property
    def alone(self) -> bool:
        """Whether each of its devices computes a whole workload."""
        return self.sharding in (ONE, INDEPENDENT)
