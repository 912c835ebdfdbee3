"""Where the ranks of a record ran, and in what state their GPUs were."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from analysis.records.results import Cell, plain_cell
from benchkit.record.record import GPU_READINGS, CaseRecord, RankDevice, Record

MOST_LISTED = 8


@dataclass(frozen=True)
class RankMapping:
    """The place of one rank; "" for unknown parts. `uuid` and `pci` are those of its GPU."""

    rank: int
    host: str
    device: str = ""
    uuid: str = ""
    pci: str = ""
    numa: str = ""

    def __str__(self) -> str:
        gpu = ", ".join(filter(None, (self.uuid, f"PCI {self.pci}" if self.pci else "")))
        return f"rank {self.rank} on {self.host}" + (f" ({gpu})" if gpu else "")


def places_of(record: Record) -> list[RankMapping]:
    rank_places = []
    devices = dict(enumerate(record.rank_devices))
    agents = {rank: agent for agent in record.agents for rank in agent.ranks}
    for rank in range(record.world_size):
        agent, device = agents.get(rank), devices.get(rank)
        processor = (agent.cpu if agent else None) or ""
        place = RankMapping(rank, agent.host if agent else "?", processor)
        if device is not None:
            numa = device.numa_nodes if device.numa_node is None else [device.numa_node]
            place = RankMapping(
                rank, place.host, device.name or processor, device.uuid or "", device.pci or "",
                "+".join(map(str, numa)),
            )  # fmt: skip
        rank_places.append(place)
    return rank_places


def number_labels(labels: Sequence[object]) -> list[int]:
    """Number the labels in order of appearance; equal labels have equal numbers."""
    order = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return [order[label] for label in labels]


def format_numbers(numbers: Sequence[int]) -> str:
    """Format ascending numbers; of many, the bounds of the first unbroken runs."""
    if len(numbers) <= MOST_LISTED:
        return ", ".join(map(str, numbers))
    offsets = groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = [[number for _, number in run] for _, run in offsets]
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    num_more = sum(map(len, runs[MOST_LISTED:]))
    return ", ".join(texts[:MOST_LISTED]) + (f" and {num_more} more" if num_more else "")


PLACE = (
    "rank_host", "gpu", "gpu_name", "gpu_pci", "gpu_numa_node", "numa_nodes", "multiprocessors",
    "gpu_bytes", "rank_nccl",
)  # fmt: skip
"""Columns that say where a rank ran."""
STATE = tuple(f"gpu_{name}" for name in GPU_READINGS)
"""Columns with the state of its GPU after a case; among a case's disturbances with `_after`."""


def place_columns(record: Record, count: int) -> dict[str, list[Cell]]:
    """Return the columns of PLACE with any value, a cell for each of the first ranks."""
    hosts = {rank: agent.host for agent in reversed(record.agents) for rank in agent.ranks}
    columns: dict[str, list[Cell]] = {name: [None] * count for name in PLACE}
    columns["rank_host"] = [plain_cell(hosts.get(rank)) for rank in range(count)]
    for rank, device in enumerate(record.rank_devices[:count]):
        for name, cell in device_cells(device).items():
            columns[name][rank] = plain_cell(cell)
    return drop_empty_columns(columns)


def gpu_state_columns(case: CaseRecord, count: int) -> dict[str, list[Cell]]:
    """Return the columns of STATE with any value, a cell for each of the first ranks."""
    columns: dict[str, list[Cell]] = {}
    for name in STATE:
        columns[name] = [
            value or None for value in case.disturbance.get(f"{name}_after", [])[:count]
        ]
        columns[name] += [None] * (count - len(columns[name]))
    return drop_empty_columns(columns)


def drop_empty_columns(columns: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Drop columns without any value; in the others, unknown cells become None."""
    cells = {name: [None if cell == "" else cell for cell in columns[name]] for name in columns}
    return {name: cells[name] for name in cells if any(cell is not None for cell in cells[name])}


def device_cells(device: RankDevice) -> dict[str, str | int | None]:
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
