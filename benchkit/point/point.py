"""One point of a sweep as it is handed to whoever runs it: an agent here, or a job of Slurm's."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchkit import record
from benchkit.api.schema import RunConfig
from benchkit.point.placement import Placement, factors

Report = Callable[[dict[str, Any]], None]
"""Takes the record of a point that has ended."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes:
        folder: where its record goes.
        overrides: as the record stores them.
        num_agents: agents that will run it, where a launcher starts them.
        resumed_with: software and hosts that differ from those the sweep began with, as [then, now] by name.
    """

    config: RunConfig
    folder: Path
    overrides: list[str]
    num_agents: int = 1
    resumed_with: dict[str, list[str]] = field(default_factory=dict)

    def unplaced(self) -> Placement:
        """Its ranks as far as they are known before anybody runs them."""
        given = self.config.world_size
        world_size = max(2, self.num_agents) if given == "auto" else int(given)
        threads = 1 if self.config.threads_per_rank == "auto" else int(self.config.threads_per_rank)
        nobody = [{"host": "nowhere", "ranks": []}] * self.num_agents
        return Placement(world_size, threads, 1.0, factors(self.config, world_size), [], nobody)

    def record(self) -> dict[str, Any] | None:
        """Its record as far as there is one that can be read and says what became of the point."""
        found = record.read_in(self.folder)
        return found if found and {"status", "agents", "config", "cases"} <= found.keys() else None
