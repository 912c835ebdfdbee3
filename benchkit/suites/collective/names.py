"""Names and payloads of the collectives in records; imports no torch."""

from benchkit.api.sizes import mebibytes
from benchkit.errors import ConfigError

TIMING = "timing"
"""Label of a case: LATENCY or BACK_TO_BACK of benchkit.statistics."""
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
BROADCAST, REDUCE, GATHER, SCATTER = "broadcast", "reduce", "gather", "scatter"
ALL_TO_ALL, SEND_RECV, BARRIER = "all_to_all", "send_recv", "barrier"
COLLECTIVES = (
    ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL,
    SEND_RECV, BARRIER,
)  # fmt: skip
"""Values of the key `collective`."""
REDUCTIONS = (ALL_REDUCE, REDUCE_SCATTER, REDUCE)
SHARED_OUT = (ALL_GATHER, REDUCE_SCATTER, GATHER, SCATTER, ALL_TO_ALL)
"""Collectives whose payload has one part per rank."""
RAGGED = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)
"""Collectives for which torch supports parts of different sizes."""


def sizes_of(data_size: float | str | list[float | str]) -> float | list[float]:
    """Convert the sizes of a job to MiB.

    Returns:
        A number for one size, also for a list of one; else a list of different sizes.

    Raises:
        ConfigError: for a list that is empty or has a size twice, and as `mebibytes`.
    """
    if not isinstance(data_size, list):
        return mebibytes(data_size)
    sizes = [mebibytes(size) for size in data_size]
    if len(set(sizes)) < len(sizes) or not sizes:
        problem = "a size is there twice" if sizes else "it is empty"
        raise ConfigError(
            f"data_size={data_size}: {problem}; allowed is a list of different sizes, or one size"
        )
    return sizes if len(sizes) > 1 else sizes[0]


def bus_factor(collective: str, world_size: int) -> float | None:
    """Return f in busbw = algbw x f (nccl-tests, doc/PERFORMANCE.md).

    One rank moves nothing and a barrier has no payload, so both have None.
    """
    if world_size == 1 or collective == BARRIER:
        return None
    if collective == ALL_REDUCE:
        return 2 * (world_size - 1) / world_size
    return (world_size - 1) / world_size if collective in SHARED_OUT else 1.0


def part_sizes(collective: str, world_size: int, num_elements: int, ragged: bool) -> list[int]:
    """Return the number of elements of each rank's part.

    Parts are equal, or ragged: they then grow linearly with the rank, from 2/3 to 4/3 of the mean.
    """
    if collective not in SHARED_OUT:
        return [num_elements]
    mean = max(1, round(num_elements / world_size))
    if not ragged or world_size == 1:
        return [mean] * world_size
    slopes = [2 * rank / (world_size - 1) - 1 for rank in range(world_size)]
    return [max(1, round(mean * (1 + slope / 3))) for slope in slopes]
