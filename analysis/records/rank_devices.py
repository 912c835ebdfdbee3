"""Cells of a row per rank that say where it ran, and in what state its GPU was."""

from typing import Any

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


def cells(record: Record, case: CaseRecord, rank: int) -> dict[str, Any]:
    """Return PLACE and STATE of a rank, without what is not known."""
    hosts = (agent.host for agent in record.agents if rank in agent.ranks)
    found: dict[str, Any] = {"rank_host": next(hosts, None)}
    if rank < len(record.rank_devices):
        found |= of_device(record.rank_devices[rank])
    for name in STATE:
        by_rank = case.disturbance.get(f"{name}_after", [])
        found[name] = by_rank[rank] if rank < len(by_rank) and by_rank[rank] else None
    return {name: value for name, value in found.items() if value not in (None, "")}


def of_device(device: RankDevice) -> dict[str, Any]:
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
