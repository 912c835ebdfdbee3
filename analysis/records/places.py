"""Where the ranks of a record ran, and in what state their GPUs were."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from analysis.records.results import Cell, plain
from benchkit.record.record import GPU_READINGS, CaseRecord, RankDevice, Record

MOST_LISTED = 8


@dataclass(frozen=True)
class RankPlace:
    """Where one rank ran; "" for what is not known. `uuid` and `pci` are of its GPU."""

    rank: int
    host: str
    device: str = ""
    uuid: str = ""
    pci: str = ""
    numa: str = ""

    def __str__(self) -> str:
        known = ", ".join(filter(None, (self.uuid, f"PCI {self.pci}" if self.pci else "")))
        return f"rank {self.rank} on {self.host}" + (f" ({known})" if known else "")


def places_of(record: Record) -> list[RankPlace]:
    found = []
    devices = dict(enumerate(record.rank_devices))
    agents = {rank: agent for agent in record.agents for rank in agent.ranks}
    for rank in range(record.world_size):
        agent, device = agents.get(rank), devices.get(rank)
        processor = (agent.cpu if agent else None) or ""
        place = RankPlace(rank, agent.host if agent else "?", processor)
        if device is not None:
            numa = device.numa_nodes if device.numa_node is None else [device.numa_node]
            place = RankPlace(
                rank, place.host, device.name or processor, device.uuid or "", device.pci or "",
                "+".join(map(str, numa)),
            )  # fmt: skip
        found.append(place)
    return found


def number_labels(labels: Sequence[object]) -> list[int]:
    """Return a number for each label, equal ones for equal labels, in order of appearance."""
    order = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return [order[label] for label in labels]


def format_numbers(numbers: Sequence[int]) -> str:
    """Name ascending numbers; of many, the first and last of each unbroken run, of some runs."""
    if len(numbers) <= MOST_LISTED:
        return ", ".join(map(str, numbers))
    offsets = groupby(enumerate(numbers), lambda each: each[1] - each[0])
    runs = [[number for _, number in run] for _, run in offsets]
    told = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    more = sum(map(len, runs[MOST_LISTED:]))
    return ", ".join(told[:MOST_LISTED]) + (f" and {more} more" if more else "")


PLACE = (
    "rank_host", "gpu", "gpu_name", "gpu_pci", "gpu_numa_node", "numa_nodes", "multiprocessors",
    "gpu_bytes", "rank_nccl",
)  # fmt: skip
"""Columns that say where a rank ran."""
STATE = tuple(f"gpu_{name}" for name in GPU_READINGS)
"""Columns with the state of its GPU after a case; among a case's disturbances with `_after`."""


def places(record: Record, count: int) -> dict[str, list[Cell]]:
    """Return those columns of PLACE that are known of any of the first ranks, a cell per rank."""
    hosts = {rank: agent.host for agent in reversed(record.agents) for rank in agent.ranks}
    found: dict[str, list[Cell]] = {name: [None] * count for name in PLACE}
    found["rank_host"] = [plain(hosts.get(rank)) for rank in range(count)]
    for rank, device in enumerate(record.rank_devices[:count]):
        for name, cell in of_device(device).items():
            found[name][rank] = plain(cell)
    return drop_empty_columns(found)


def gpu_state_columns(case: CaseRecord, count: int) -> dict[str, list[Cell]]:
    """Return those columns of STATE that are known of any of the first ranks, a cell per rank."""
    found: dict[str, list[Cell]] = {}
    for name in STATE:
        found[name] = [value or None for value in case.disturbance.get(f"{name}_after", [])[:count]]
        found[name] += [None] * (count - len(found[name]))
    return drop_empty_columns(found)


def drop_empty_columns(columns: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Leave out columns without any value; in the others, None stands for what is not known."""
    cells = {name: [None if cell == "" else cell for cell in columns[name]] for name in columns}
    return {name: cells[name] for name in cells if any(cell is not None for cell in cells[name])}


def of_device(device: RankDevice) -> dict[str, str | int | None]:
    return {
        "gpu": device.uuid,
        "gpu_name": device.name,
        "gpu_pci": device.pci,
        "gpu_numa_node": device.numa_node,
        "numa_nodes": ", ".join(map(str, device.numa_nodes)),
        "multiprocessors": device.multiprocessors,
        "gpu_bytes": device.memory_bytes,
        "rank_nccl": device.nccl,
    }
