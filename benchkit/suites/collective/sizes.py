"""Parses message sizes and counts payloads as nccl-tests does; imports no torch."""

import re

from benchkit.errors import ConfigError
from benchkit.suites.collective.names import ALL_REDUCE, BARRIER, SHARED_OUT

UNITS = {"B": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 2.0**10}


def mebibytes(size: float | str) -> float:
    """Converts a size to MiB.

    Args:
        size: a number of MiB, or a number with its unit: "4B", "1KiB", "16 MiB" or "2GiB".

    Raises:
        ConfigError: for anything that is not a finite size > 0.
    """
    found = re.fullmatch(r"([0-9.eE+-]+?)\s*(B|KiB|MiB|GiB)?", str(size))
    try:
        value = float(found[1]) * UNITS[found[2] or "MiB"] if found else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(
            f"data_size={size}: allowed are MiB > 0, or a size with its unit: 4B, 1KiB, 16MiB, 2GiB"
        )
    return value


def bus_factor(collective: str, world_size: int) -> float | None:
    """Returns f in busbw = algbw x f (nccl-tests, doc/PERFORMANCE.md).

    One rank moves nothing and a barrier has no payload, so both have None.
    """
    if world_size == 1 or collective == BARRIER:
        return None
    if collective == ALL_REDUCE:
        return 2 * (world_size - 1) / world_size
    return (world_size - 1) / world_size if collective in SHARED_OUT else 1.0


def part_sizes(collective: str, world_size: int, num_elements: int, ragged: bool) -> list[int]:
    """Returns the number of elements of each rank's part.

    Parts are equal, or ragged: they then grow linearly with the rank, from 2/3 to 4/3 of the mean.
    """
    if collective not in SHARED_OUT:
        return [num_elements]
    mean = max(1, round(num_elements / world_size))
    if not ragged or world_size == 1:
        return [mean] * world_size
    slopes = [2 * rank / (world_size - 1) - 1 for rank in range(world_size)]
    return [max(1, round(mean * (1 + slope / 3))) for slope in slopes]
