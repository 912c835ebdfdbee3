"""Cells of a row per rank that say where it ran, and in what state its GPU was."""

from analysis.records.figures import Cell, plain
from benchkit.record.case import CaseRecord
from benchkit.record.devices import RankDevice
from benchkit.record.gpu_state import READINGS
from benchkit.record.record import Record

PLACE = (
    "rank_host", "gpu", "gpu_name", "gpu_pci", "gpu_numa_node", "numa_nodes", "multiprocessors",
    "gpu_bytes", "rank_nccl",
)  # fmt: skip
"""Columns that say where a rank ran."""
STATE = tuple(f"gpu_{name}" for name in READINGS)
"""Columns with the state of its GPU after a case; among a case's disturbances with `_after`."""


def places(record: Record, count: int) -> dict[str, list[Cell]]:
    """Return those columns of PLACE that are known of any of the first ranks, a cell per rank."""
    hosts = {rank: agent.host for agent in reversed(record.agents) for rank in agent.ranks}
    found: dict[str, list[Cell]] = {name: [None] * count for name in PLACE}
    found["rank_host"] = [plain(hosts.get(rank)) for rank in range(count)]
    for rank, device in enumerate(record.rank_devices[:count]):
        for name, cell in of_device(device).items():
            found[name][rank] = plain(cell)
    return known(found)


def states(case: CaseRecord, count: int) -> dict[str, list[Cell]]:
    """Return those columns of STATE that are known of any of the first ranks, a cell per rank."""
    found: dict[str, list[Cell]] = {}
    for name in STATE:
        found[name] = [value or None for value in case.disturbance.get(f"{name}_after", [])[:count]]
        found[name] += [None] * (count - len(found[name]))
    return known(found)


def known(columns: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Leave out columns without any value; in the others, None stands for what is not known."""
    cells = {name: [None if cell == "" else cell for cell in columns[name]] for name in columns}
    return {name: cells[name] for name in cells if any(cell is not None for cell in cells[name])}


def of_device(device: RankDevice) -> dict[str, str | int | None]:
    """Return the cells of PLACE that a rank's device tells."""
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
