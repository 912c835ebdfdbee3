"""Inputs whose reductions are exact in every dtype and order, so that a correct output is known to the bit.

Values are small integers (or powers of two for products) drawn per (seed, round, rank) and repeated with a prime
period, so that a swapped, shifted, missing or stale chunk shows. The idea of exactly predictable inputs is nccl-tests'.
"""

import math
from typing import TYPE_CHECKING

from benchkit.errors import InvalidResult

if TYPE_CHECKING:
    import torch

PERIOD = 65537  # prime: no power-of-two chunking lines up with it
ROWS_PER_CHECK = 64  # compares 16 MiB of float32 at a time, to need little memory


def pattern(
    *, seed: int, turn: int, rank: int, world_size: int, dtype: "torch.dtype", op: str, length: int = PERIOD
) -> "torch.Tensor":
    """One period of rank's input as int64 on the CPU: [min(length, PERIOD)], values in -2..2 (avg: times world_size).

    length: elements of the buffer to be filled; a shorter one needs no whole period. At each index only so many ranks
    contribute more than the neutral element that the reduction stays exact.
    """
    import torch

    generator = torch.Generator().manual_seed(hash((seed, turn, rank)) % 2**63)
    size = (min(length, PERIOD),)
    index = torch.arange(*size)
    contributes = (rank - index) % world_size < window(dtype, op, world_size)
    if op == "product":
        sign = torch.randint(0, 2, size, generator=generator) * 2 - 1
        return sign * torch.where(contributes, torch.randint(1, 3, size, generator=generator), 1)
    values = torch.randint(-2, 3, size, generator=generator)
    if op in ("sum", "avg"):
        values *= contributes
    return values * world_size if op == "avg" else values


def window(dtype: "torch.dtype", op: str, world_size: int) -> int:
    """How many ranks may contribute at one index: each adds at most 2 (avg: 2 x world_size), or doubles a product."""
    exponent, exact = exact_range(dtype)
    if op == "product":
        return min(exponent, 62) - 1  # reduced() multiplies in int64
    return max(1, exact // (2 * world_size if op == "avg" else 2))


def exact_range(dtype: "torch.dtype") -> tuple[int, int]:
    """(e, n): powers of two up to 2^e and all integers up to n are representable."""
    import torch

    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return math.frexp(info.max)[1] - 1, round(2 / info.eps)
    return torch.iinfo(dtype).bits - 2, torch.iinfo(dtype).max


def reduced(
    seed: int, turn: int, world_size: int, dtype: "torch.dtype", op: str, length: int = PERIOD
) -> "torch.Tensor":
    """One period of the exact reduction of all ranks' patterns: int64, [min(length, PERIOD)]."""
    import torch

    combine = {
        "sum": torch.add,
        "avg": torch.add,
        "min": torch.minimum,
        "max": torch.maximum,
        "product": torch.mul,
    }
    result = None
    for rank in range(world_size):
        values = pattern(seed=seed, turn=turn, rank=rank, world_size=world_size, dtype=dtype, op=op, length=length)
        result = values if result is None else combine[op](result, values)
    assert result is not None
    return result // world_size if op == "avg" else result


def tile(buffer: "torch.Tensor", period: "torch.Tensor") -> None:
    """Fills a flat buffer with repetitions of `period` (same dtype and device)."""
    rows = len(buffer) // len(period)
    buffer[: rows * len(period)].view(rows, len(period)).copy_(period.expand(rows, -1))
    buffer[rows * len(period) :].copy_(period[: len(buffer) - rows * len(period)])


def tolerance(world_size: int, dtype: "torch.dtype", op: str) -> float:
    """0, for exact equality, but for averages over a number of ranks that is no power of two.

    NCCL multiplies each input by 1/n, rounded: each of the contributing values, of at most 2, is off by that much.
    """
    import torch

    if op != "avg" or world_size & (world_size - 1) == 0:
        return 0.0
    return 4 * float(torch.finfo(dtype).eps) * min(world_size, window(dtype, op, world_size))


def require_tiled(output: "torch.Tensor", period: "torch.Tensor", atol: float = 0.0) -> None:
    """Raises InvalidResult with the first index at which a flat output differs from repetitions of `period`.

    atol: absolute difference that is let pass; 0 means equal to the bit.
    """
    for start in range(0, len(output), ROWS_PER_CHECK * len(period)):
        part = output[start : start + ROWS_PER_CHECK * len(period)]
        rows = len(part) // len(period)
        body, rest = part[: rows * len(period)].view(rows, len(period)), part[rows * len(period) :]
        if (body == period).all() and (rest == period[: len(rest)]).all():
            continue
        expected = period.repeat(rows + 1)[: len(part)]
        wrong = ~((part - expected).abs() <= atol) if atol else part != expected  # NaN is wrong either way
        if wrong.any():
            first = int(wrong.nonzero()[0])
            raise InvalidResult(
                f"element {start + first}: {part[first].item()}, expected {expected[first].item()} "
                f"({int(wrong.sum())} of {len(part)} wrong in this part)"
            )
