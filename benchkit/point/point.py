"""One point of a sweep, as handed to an agent here or to a Slurm job."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchkit.api.schema import RunConfig
from benchkit.point.placement import Placement, factors
from benchkit.record import files
from benchkit.record.environment import AgentReport
from benchkit.record.record import Record

Report = Callable[[Record], None]
"""Takes the record of a point that has ended."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes:
        config: the typed configuration of this point.
        folder: where its record goes.
        overrides: its overrides, as the record stores them.
        num_agents: number of agents that will run it, if a launcher starts them.
        resumed_with: software and hosts that differ from those at the start of the sweep, as
            [then, now] by name.
        repetition: 0 for the first run of its configuration in the sweep, 1 for the second.
    """

    config: RunConfig
    folder: Path
    overrides: list[str]
    num_agents: int = 1
    resumed_with: dict[str, list[str]] = field(default_factory=dict)
    repetition: int = 0

    def unplaced(self) -> Placement:
        """Returns its placement as far as it is known before any agent runs it."""
        config = self.config
        auto_size = config.world_size == "auto"
        world_size = max(2, self.num_agents) if auto_size else int(config.world_size)
        threads = 1 if config.threads_per_rank == "auto" else int(config.threads_per_rank)
        agents = [AgentReport(host="nowhere")] * self.num_agents
        return Placement(world_size, threads, 1.0, factors(config, world_size), [], agents)

    def record(self) -> Record | None:
        """Returns its record; None if it is missing or not readable."""
        return files.read_in(self.folder)
