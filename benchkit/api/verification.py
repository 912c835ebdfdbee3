"""Inputs whose reductions are exact in every dtype and order, and checks to the bit.

Values are small integers, or powers of two for products. They are drawn per (seed, round, rank) and
repeated with a prime period, so a swapped, shifted, missing or stale chunk shows. nccl-tests has
exactly predictable inputs, too.
"""

import functools
import math

import torch
from torch import Tensor

from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult

PERIOD = 65537
"""Elements of one period; prime, so that no chunk of a power of two lines up with it."""
ROWS_PER_CHECK = 64
"""Periods that are compared at a time: 16 MiB of float32."""


def pattern(
    *,
    seed: int,
    turn: int,
    rank: int,
    world_size: int,
    dtype: torch.dtype,
    op: str,
    length: int = PERIOD,
) -> Tensor:
    """Return one period of a rank's input, which stays exact when it is reduced.

    At each index only `window()` ranks contribute more than the neutral element.

    Args:
        turn: number of the round, which has its own inputs.
        op: reduction: sum, avg, min, max or product.
        length: elements of the buffer to fill; a short one needs no whole period.

    Returns:
        int64 on the CPU: [min(length, PERIOD)], values in -2..2 (for avg times `world_size`).
    """
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


def window(dtype: torch.dtype, op: str, world_size: int) -> int:
    """Return how many ranks may contribute at one index.

    Each rank adds at most 2 (for avg 2 x world_size), or doubles a product.
    """
    exponent, exact = exact_range(dtype)
    if op == "product":
        return min(exponent, 62) - 1  # reduced() multiplies in int64
    return max(1, exact // (2 * world_size if op == "avg" else 2))


def exact_range(dtype: torch.dtype) -> tuple[int, int]:
    """Return (e, n): powers of two up to 2^e and all integers up to n are representable."""
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return math.frexp(info.max)[1] - 1, round(2 / info.eps)
    return torch.iinfo(dtype).bits - 2, torch.iinfo(dtype).max


def reduced(
    seed: int, turn: int, world_size: int, dtype: torch.dtype, op: str, length: int = PERIOD
) -> Tensor:
    """Return one period of the exact reduction of all ranks' patterns."""
    combine = {
        "sum": torch.add,
        "avg": torch.add,
        "min": torch.minimum,
        "max": torch.maximum,
        "product": torch.mul,
    }
    pattern_of = functools.partial(
        pattern, seed=seed, turn=turn, world_size=world_size, dtype=dtype, op=op, length=length
    )
    patterns = (pattern_of(rank=rank) for rank in range(world_size))
    result = functools.reduce(combine[op], patterns)
    return result // world_size if op == "avg" else result


def returned(result: object) -> Tensor:
    if not isinstance(result, Tensor):
        raise InvalidResult(f"the call returned {type(result).__name__}, expected a tensor")
    return result


def tile(buffer: Tensor, period: Tensor) -> None:
    """Fill a flat buffer [n] with repetitions of `period` [p]."""
    rows = len(buffer) // len(period)
    whole = rows * len(period)
    buffer[:whole].view(rows, len(period)).copy_(period.expand(rows, -1))
    buffer[whole:].copy_(period[: len(buffer) - whole])


def tolerance(world_size: int, dtype: torch.dtype, op: str) -> float:
    """Return the absolute difference that a correct output may have; 0 means exact equality.

    Only averages over n ranks may differ, where n is no power of two. NCCL multiplies each input by
    the rounded 1/n, so each contributing value, of at most 2, has that rounding error.
    """
    if op != "avg" or world_size & (world_size - 1) == 0:
        return 0.0
    return 4 * float(torch.finfo(dtype).eps) * min(world_size, window(dtype, op, world_size))


def require_tiled(output: Tensor, period: Tensor, atol: float = 0.0) -> None:
    """Raise InvalidResult, with the first wrong index, unless a flat output repeats a period.

    The last repetition may be cut. `atol` is the absolute difference that passes.
    """
    wait_for_device(output)
    period = period.to(output)  # only now: this, too, waits for the device
    for start in range(0, len(output), ROWS_PER_CHECK * len(period)):
        part = output[start : start + ROWS_PER_CHECK * len(period)]
        rows = len(part) // len(period)
        body = part[: rows * len(period)].view(rows, len(period))
        rest = part[rows * len(period) :]
        if are_bits_equal(body, period.expand_as(body)) and are_bits_equal(
            rest, period[: len(rest)]
        ):
            continue
        expected = period.repeat(rows + 1)[: len(part)]
        # Both comparisons count NaN as wrong, and -0 as equal to 0.
        wrong = ~((part - expected).abs() <= atol) if atol else part != expected
        if wrong.any():
            first = int(wrong.nonzero()[0])
            raise InvalidResult(
                f"element {start + first}: {part[first].item()}, expected {expected[first].item()} "
                f"({int(wrong.sum())} of {len(part)} wrong in this part)"
            )


def are_bits_equal(left: Tensor, right: Tensor) -> bool:
    """Compare two tensors of one shape and dtype to the bit.

    Compared as integers they need one pass and no tensor of results: two to three times the speed
    of `(left == right).all()` in half precision and in float32 on a CPU.
    """
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    return bool(torch.equal(left.view(bits), right.view(bits)))
