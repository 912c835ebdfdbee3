"""What an agent sends to the process of each rank. Knows no torch, which only ranks load."""

from dataclasses import dataclass
from pathlib import Path

from benchkit.api.schema import RunConfig
from benchkit.point.placement import Place
from benchkit.rank.rendezvous import Rendezvous
from launch.agents.clock_sync import Offset


@dataclass(frozen=True)
class Assignment:
    """One rank's part in one point."""

    config: RunConfig
    place: Place
    world_size: int
    threads: int
    slowdown: tuple[float, ...]
    rendezvous: Rendezvous
    offset: Offset
    folder: Path
