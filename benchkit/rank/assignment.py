"""What an agent sends to the process of each rank. Imports no torch, which only ranks load."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchkit.api.case import Case, Components
from benchkit.api.schema import RunConfig
from benchkit.rank.rendezvous import Rendezvous
from benchkit.record.case import Labels
from launch.agents.clock_sync import Offset
from launch.topology import Limits


@dataclass(frozen=True)
class Place:
    """Where one rank runs.

    Attributes:
        rank: its number among all ranks of the point.
        local_rank: its number among the ranks on its host.
        local_world_size: number of ranks on its host.
        device_index: its GPU, counted among those that its agent sees.
    """

    rank: int
    local_rank: int
    local_world_size: int
    device_index: int


@dataclass(frozen=True)
class Assignment:
    """One rank's part in one point.

    Attributes:
        config: the configuration of the point.
        place: where this rank runs.
        world_size: number of ranks of the point.
        threads: number of threads of this rank.
        slowdown: how many times slower each rank is to be, by rank.
        rendezvous: where the ranks meet.
        offset: offset of this host's clock to agent 0's.
        folder: where the record goes.
        only: labels of the one case that is verified and timed; None for all cases.
        idle_pids: processes of idle ranks of this agent, which wait for their next point.
        hosts: name of the node of each rank: [rank].
        limits: of the agent, which the plan relies on.
    """

    config: RunConfig
    place: Place
    world_size: int
    threads: int
    slowdown: tuple[float, ...]
    rendezvous: Rendezvous
    offset: Offset
    folder: Path
    only: Labels | None = None
    idle_pids: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def by_mps(config: RunConfig, slowdown: Sequence[float]) -> bool:
    """Returns whether ranks get shares of GPUs by MPS.

    They do if a rank is slowed down, and if `hardware` asks for equal shares to compare.
    """
    hardware = config.hardware
    if hardware.device != "cuda":
        return False
    return hardware.slow_by == "mps" or hardware.full_share != "auto" or max(slowdown) > 1


def keep_alone(cases: list[Case], labels: Labels) -> Case:
    """Returns the case with these labels, which then refers to no other case.

    What the other cases hold is freed where nothing else holds it.

    Raises:
        ValueError: these ranks built no such case.
    """
    found = next((case for case in cases if dict(case.labels) == labels), None)
    if found is None:
        raise ValueError(f"fresh ranks built no case {labels}")
    return replace(found, baseline=None, components=Components())
