"""What an agent sends to the process of each rank. Knows no torch, which only ranks load."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchkit.api.schema import RunConfig
from benchkit.rank.rendezvous import Rendezvous
from launch.agents.clock_sync import Offset


@dataclass(frozen=True)
class Place:
    """Where one rank runs. `device_index` counts the GPUs that its agent sees."""

    rank: int
    local_rank: int
    local_world_size: int
    device_index: int


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


def by_mps(config: RunConfig, slowdown: Sequence[float]) -> bool:
    """Whether ranks get shares of GPUs by MPS: where one is slowed, and where equal shares are asked for to compare."""
    return config.hardware.device == "cuda" and (config.hardware.slow_by == "mps" or max(slowdown) > 1)
