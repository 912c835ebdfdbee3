"""Sizes as people write them, and payloads as nccl-tests counts them. Knows no torch."""

import re

from benchkit.errors import ConfigError

UNITS = {"B": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 2.0**10}
COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all",
    "send_recv", "barrier",
)  # fmt: skip
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
SHARED_OUT = ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all")
"""Their payload consists of a part per rank."""
RAGGED = ("all_gather", "reduce_scatter", "all_to_all")
"""Those that torch has with parts of unlike sizes."""


def mebibytes(size: float | str) -> float:
    """A size in MiB: a number is one, "4B", "1KiB", "16 MiB" or "2GiB" says its unit. Raises ConfigError."""
    found = re.fullmatch(r"([0-9.eE+-]+?)\s*(B|KiB|MiB|GiB)?", str(size))
    try:
        value = float(found[1]) * UNITS[found[2] or "MiB"] if found else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"data_size={size}: allowed are MiB > 0, or a size with its unit: 4B, 1KiB, 16MiB, 2GiB")
    return value


def bus_factor(collective: str, world_size: int) -> float | None:
    """busbw = algbw x this (nccl-tests, doc/PERFORMANCE.md); None on one rank, which moves nothing."""
    if world_size == 1 or collective == "barrier":
        return None
    if collective == "all_reduce":
        return 2 * (world_size - 1) / world_size
    return (world_size - 1) / world_size if collective in SHARED_OUT else 1.0


def part_sizes(collective: str, world_size: int, num_elements: int, ragged: bool) -> list[int]:
    """Elements of each rank's part: equal, or growing with the rank by a third of the mean from first to last."""
    if collective not in SHARED_OUT:
        return [num_elements]
    mean = max(1, round(num_elements / world_size))
    if not ragged or world_size == 1:
        return [mean] * world_size
    return [max(1, round(mean * (1 + (2 * rank / (world_size - 1) - 1) / 3))) for rank in range(world_size)]
