"""Where the ranks of a record ran, in the words that a ticket needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from benchkit.record.record import Record

MOST_LISTED = 8


@dataclass(frozen=True)
class Place:
    """Where one rank ran; "" where something is not known.

    Attributes:
        rank: its number.
        host: name of its node.
        device: name of its GPU, or of the processor.
        uuid, pci: of its GPU.
        numa: NUMA nodes of its GPU, or of its cores.
    """

    rank: int
    host: str
    device: str = ""
    uuid: str = ""
    pci: str = ""
    numa: str = ""

    def __str__(self) -> str:
        known = ", ".join(filter(None, (self.uuid, f"PCI {self.pci}" if self.pci else "")))
        return f"rank {self.rank} on {self.host}" + (f" ({known})" if known else "")


def places_of(record: Record) -> list[Place]:
    """Return the place of each rank."""
    found = []
    devices = dict(enumerate(record.rank_devices))
    agents = {rank: agent for agent in record.agents for rank in agent.ranks}
    for rank in range(record.world_size):
        agent, device = agents.get(rank), devices.get(rank)
        processor = (agent.cpu if agent else None) or ""
        place = Place(rank, agent.host if agent else "?", processor)
        if device is not None:
            numa = device.numa_nodes if device.numa_node is None else [device.numa_node]
            place = Place(
                rank, place.host, device.name or processor, device.uuid or "", device.pci or "",
                "+".join(map(str, numa)),
            )  # fmt: skip
        found.append(place)
    return found


def numbered(labels: Sequence[object]) -> list[int]:
    """Return a number for each label, equal ones for equal labels, in order of appearance."""
    order = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return [order[label] for label in labels]


def listed(numbers: Sequence[int]) -> str:
    """Name ascending numbers; of many, the first and last of each unbroken run, of some runs."""
    if len(numbers) <= MOST_LISTED:
        return ", ".join(map(str, numbers))
    offsets = groupby(enumerate(numbers), lambda each: each[1] - each[0])
    runs = [[number for _, number in run] for _, run in offsets]
    told = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    more = sum(map(len, runs[MOST_LISTED:]))
    return ", ".join(told[:MOST_LISTED]) + (f" and {more} more" if more else "")
