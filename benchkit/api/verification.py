"""Inputs whose reductions are exact in every dtype and order, and bitwise checks.

Values are integers, or powers of two for products. They are drawn per (seed, turn, rank) and
repeated with a prime period, so a swapped, shifted or stale chunk is detected. In a reduction a few
ranks contribute at each index, and each rank at many, so a missing or doubled rank is detected,
too. nccl-tests has exactly predictable inputs, too.
"""

import functools
import math

import torch
from torch import Tensor

from benchkit.api.drawing import BLOCK, integers_at
from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult

PERIOD = 65537
"""Elements of one period; prime, so that it does not align with chunks of a power of two."""
ROWS_PER_CHECK = 64
"""Periods compared at a time: 16 MiB of float32."""
PLAIN = "plain"
"""Operation of messages without a reduction: any value at each index."""
LARGEST = 2**20
"""Largest integer drawn, if the dtype has it."""
POISON = -(2**24)
"""Value of integer buffers before a call; never drawn."""
SHOWN, WITNESSES = 64, 4
"""Contributing ranks at each index, and indices per rank: a short message has more ranks at each
index."""


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
    """Return one period of a rank's input, whose reduction is exact.

    Args:
        turn: number of the round, each with its own inputs.
        op: reduction: sum, avg, min, max or product; or PLAIN.
        length: elements of the buffer to fill; a short one needs no whole period.

    Returns:
        int64 on the CPU: [min(length, PERIOD)].
    """
    draw = Draw(seed, turn, world_size, dtype, op, length)
    return draw.values(torch.tensor(rank), (rank - draw.first()) % world_size)


def expected_reduction(
    seed: int, turn: int, world_size: int, dtype: torch.dtype, op: str, length: int = PERIOD
) -> Tensor:
    """Return one period of the exact reduction of all ranks' patterns, in int64; float64 for avg.

    Only contributing ranks are drawn, so it takes as long for 4096 ranks as for SHOWN.
    """
    draw = Draw(seed, turn, world_size, dtype, op, length)
    first = draw.first()
    result = torch.tensor(1 if op == "product" else 0)
    for places in torch.arange(draw.window).unsqueeze(1).split(max(1, BLOCK // len(first))):
        values = draw.values((first + places) % world_size, places)
        result = result * values.prod(0) if op == "product" else result + values.sum(0)
    return result.double() / world_size if op == "avg" else result


class Draw:
    """Draws the values of ranks at each index: [min(length, PERIOD)].

    At index i, `window` ranks from `first()[i]` on contribute; a rank's place is its distance from
    it. The windows of successive indices adjoin, so all ranks contribute equally often in any part
    of the buffer. Sums and products have neutral values elsewhere. In minima and maxima a single
    rank contributes: its value has the opposite sign.
    """

    def __init__(
        self, seed: int, turn: int, world_size: int, dtype: torch.dtype, op: str, length: int
    ) -> None:
        self._key = seed, turn
        self._world_size = world_size
        self._dtype = dtype
        self._op = op
        self._index = torch.arange(min(length, PERIOD))
        self.window = window(world_size, dtype, op, length)

    def first(self) -> Tensor:
        return (self._index * self.window + hash(self._key)) % self._world_size

    def values(self, rank: Tensor, place: Tensor) -> Tensor:
        """Draw the values of one rank, or of another rank at each index, with their places."""
        draw = functools.partial(integers_at, rank, self._index, key=self._key)
        exponent, exact = exact_range(self._dtype)
        largest = min(exact, LARGEST)
        if self._op == PLAIN:
            return draw(-(largest // 2), largest // 2)
        if self._op in ("min", "max"):
            sign = 1 if self._op == "max" else -1
            return draw(1, largest + 1) * torch.where(place < 1, sign, -sign)
        if self._op == "product":
            # In float16 only 14 ranks can double; the other contributing ranks flip the sign only.
            doubling = place < min(exponent, 62) - 1  # expected_reduction() multiplies in int64
            factor = torch.where(doubling, draw(0, 2) * 4 - 2, -1)
            return torch.where(place < self.window, factor, 1)
        largest_value = 2 if self._op == "avg" else min(exact // self.window, LARGEST)
        drawn = draw(-largest_value, largest_value)
        return torch.where(place < self.window, drawn + (drawn >= 0), 0)


def window(world_size: int, dtype: torch.dtype, op: str, length: int = PERIOD) -> int:
    """Return the number of contributing ranks per index: a missing or doubled one is detected.

    For a sum they are few enough that it is exact with values up to 2, for an average few enough
    that `tolerance` hides none. In a minimum or maximum one rank contributes.
    """
    if op in ("min", "max"):
        return 1
    num_ranks = max(SHOWN, math.ceil(WITNESSES * world_size / min(length, PERIOD)))
    if op in ("sum", "avg"):
        num_ranks = min(num_ranks, exact_range(dtype)[1] // 2)
    if op == "avg" and not is_power_of_two(world_size):
        num_ranks = min(num_ranks, math.isqrt(round(0.5 / torch.finfo(dtype).eps)) - 2)
    return min(world_size, num_ranks)


def witnesses(world_size: int, dtype: torch.dtype, op: str, length: int = PERIOD) -> int:
    """Return the least number of indices of a period to which each rank contributes.

    With 0 a message is too short: a check detects a missing rank in `window` x length of
    `world_size` cases.
    """
    return min(length, PERIOD) * window(world_size, dtype, op, length) // world_size


def exact_range(dtype: torch.dtype) -> tuple[int, int]:
    """Return (e, n): powers of two up to 2^e and all integers up to n are representable."""
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return math.frexp(info.max)[1] - 1, round(2 / info.eps)
    return torch.iinfo(dtype).bits - 2, torch.iinfo(dtype).max


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def require_tensor(result: object) -> Tensor:
    if not isinstance(result, Tensor):
        raise InvalidResult(f"the call returned {type(result).__name__}, expected a tensor")
    return result


def tile(buffer: Tensor, period: Tensor) -> None:
    """Fill a flat buffer [n] with repetitions of `period` [p]."""
    rows = len(buffer) // len(period)
    whole = rows * len(period)
    buffer[:whole].view(rows, len(period)).copy_(period.expand(rows, -1))
    buffer[whole:].copy_(period[: len(buffer) - whole])


def tolerance(world_size: int, dtype: torch.dtype, op: str, length: int = PERIOD) -> float:
    """Return the absolute tolerance of a correct output; 0 means exact equality.

    Only averages over n ranks may differ, if n is not a power of two. NCCL multiplies each input by
    the rounded 1/n and adds the products. Of w values of at most 2/n, each has two such roundings,
    and each of the sums, of at most 2 w/n, has one more. A missing rank's value is at least 1/n,
    more than twice this.
    """
    if op != "avg" or is_power_of_two(world_size):
        return 0.0
    num_ranks = window(world_size, dtype, op, length)
    return float(torch.finfo(dtype).eps) * num_ranks * (num_ranks + 4) / world_size


def require_tiled(output: Tensor, period: Tensor, atol: float = 0.0) -> None:
    """Raise InvalidResult, with the first wrong index, unless a flat output repeats a period.

    The last repetition may be cut. `atol` is the absolute tolerance.
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
        is_wrong = ~((part - expected).abs() <= atol) if atol else part != expected
        if is_wrong.any():
            first = int(is_wrong.nonzero()[0])
            raise InvalidResult(
                f"element {start + first}: {part[first].item()}, expected {expected[first].item()} "
                f"({int(is_wrong.sum())} of {len(part)} wrong in this part)"
            )


def are_bits_equal(left: Tensor, right: Tensor) -> bool:
    """Compare two tensors of one shape and dtype bitwise.

    As integers they need one pass and no intermediate tensor: two to three times the speed of
    `(left == right).all()` in half precision and in float32 on a CPU.
    """
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[left.element_size()]
    return bool(torch.equal(left.view(bits), right.view(bits)))
