"""Draw random matrices that are equal on all ranks, each rank on its own device.

An element is a hash of its row, its column and a key, in integer arithmetic that is the same on
every device. torch's generators differ between kinds of devices, and between GPUs by their
multiprocessors. Any part of a matrix can be drawn without the rest.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

Key = int | tuple[int, ...]
"""Only numbers: each process hashes strings differently."""
Part = tuple[slice, slice]
"""Rows and columns of a matrix, each from `start` up to `stop`."""

BITS = 31  # of a hash: the product of two such numbers is no overflow of int64
MASK = 2**BITS - 1
MULTIPLIER = 0x5BD1E995
"""Multiplier of MurmurHash2 (Appleby, 2008): each bit of a factor changes many higher bits."""
DIGITS = 24  # bits of a real number: float32 has them exactly
BLOCK = 2**18
"""Elements hashed at a time: 2 MiB, which fit in a CPU's cache."""


def whole(rows: int, columns: int) -> Part:
    return slice(0, rows), slice(0, columns)


def size_of(part: Part) -> tuple[int, int]:
    rows, columns = part
    return rows.stop - rows.start, columns.stop - columns.start


def integers(
    part: Part,
    low: int,
    high: int,
    *,
    key: Key,
    device: torch.device,
    dtype: torch.dtype = torch.int8,
) -> Tensor:
    """Draw integers uniformly from [low, high): [rows, columns]."""
    drawn = torch.empty(size_of(part), dtype=dtype, device=device)
    for rows, hashes in blocks(part, key, device):
        drawn[rows] = (hashes.mul_(high - low) >> BITS).add_(low)
    return drawn


def uniform(part: Part, *, key: Key, device: torch.device, variance: float = 1 / 3) -> Tensor:
    """Draw float32 numbers uniformly around 0, by default from [-1, 1): [rows, columns]."""
    drawn = torch.empty(size_of(part), device=device)
    for rows, hashes in blocks(part, key, device):
        drawn[rows] = hashes >> (BITS - DIGITS)
    largest = (3 * variance) ** 0.5
    return drawn.mul_(largest * 2.0 ** (1 - DIGITS)).sub_(largest)


def integers_at(rows: Tensor, columns: Tensor, low: int, high: int, *, key: Key) -> Tensor:
    """Draw single elements of `integers`, as int64; rows and columns are broadcast."""
    hashes = mix(hash_of(rows, key, 0) ^ hash_of(columns, key, 1))
    return (hashes.mul_(high - low) >> BITS).add_(low)


def blocks(part: Part, key: Key, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
    """Yield slices of rows with their hashes: int64 from [0, 2^BITS), [rows, columns]."""
    rows, columns = (
        hash_of(torch.arange(span.start, span.stop, device=device), key, axis)
        for axis, span in enumerate(part)
    )
    step = max(1, BLOCK // max(1, len(columns)))
    for start in range(0, len(rows), step):
        row_block = slice(start, start + step)
        yield row_block, mix(rows[row_block, None] ^ columns)


def mix(hashes: Tensor) -> Tensor:
    hashes ^= hashes >> (BITS // 2)
    hashes *= MULTIPLIER
    hashes &= MASK
    return hashes


def hash_of(numbers: Tensor, key: Key, axis: int) -> Tensor:
    return hash_with_key(numbers, hash((key, axis)) & MASK)


def hash_with_key(numbers: Tensor, key: int) -> Tensor:
    mixed = numbers ^ key
    for _ in range(2):
        mixed = (mixed ^ (mixed >> (BITS // 2))) * MULTIPLIER & MASK
    return mixed ^ (mixed >> (BITS // 2))
