"""Operands: random ones to time, and exact ones whose whole result is known without multiplying a matrix."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from benchkit.errors import InvalidResult
from benchkit.suites.auto_shard.plans import COLUMNS, ROWS
from benchkit.suites.auto_shard.workloads import Workload

Part = tuple[slice, slice]
"""Rows and columns of a matrix."""
Source = Callable[[int, Part], Tensor]
"""Gives a part of an operand: 0 the input, then the weights."""
NONZEROS = 3
"""In each column of an exact weight, every third of them -1: of fewer, relu would soon leave only zeros."""
MOST_NONZEROS, NARROW = 63, 192
"""Of a single product: as many as give the whole weight so many, lest a narrow one has a shard without any."""


def part_of(shape: tuple[int, int], layout: str, devices: int, index: int) -> Part:
    """What a device has of a matrix in a layout: torch.chunk's shards, of which the last may be short, or empty."""
    rows, columns = shape
    return (
        shard(rows, devices, index) if layout == ROWS else slice(0, rows),
        shard(columns, devices, index) if layout == COLUMNS else slice(0, columns),
    )


def shard(length: int, devices: int, index: int) -> slice:
    share = -(-length // devices)
    return slice(min(index * share, length), min((index + 1) * share, length))


def size_of(part: Part) -> tuple[int, int]:
    rows, columns = part
    return rows.stop - rows.start, columns.stop - columns.start


@dataclass(frozen=True)
class Random:
    """Standard normal numbers; weights that are there beforehand are scaled to keep values in range."""

    workload: Workload
    generator: torch.Generator
    dtype: torch.dtype

    def __call__(self, operand: int, part: Part) -> Tensor:
        device = self.generator.device
        values = torch.randn(size_of(part), device=device, dtype=self.dtype, generator=self.generator)
        if operand and not self.workload.creates_weights:
            values *= self.workload.widths[operand - 1] ** -0.5
        return values


@dataclass(frozen=True)
class Exact:
    """Integers that differ by turn and position, small enough to be exact in `dtype`; the same on all ranks.

    Each column of a weight has a few entries of ±1, so that each column of a product is the sum of a few columns of
    its input: whatever is lost, doubled, stale or out of place shows, and the result is told by adding columns.
    """

    workload: Workload
    device: torch.device
    dtype: torch.dtype
    seed: int
    turn: int

    def __call__(self, operand: int, part: Part) -> Tensor:
        if operand == 0:
            return self.input[part].to(self.device, self.dtype)
        (inner, outer), (index, sign) = self.workload.weights[operand - 1], self.columns[operand - 1]
        whole = torch.zeros(inner, outer, dtype=torch.int8).scatter_add_(0, index, sign)
        return whole[part].to(self.device, self.dtype)

    @property
    def wide(self) -> torch.dtype:
        """In which results are compared."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    @cached_property
    def drawn(self) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The input, and of each weight which rows of each column are not zero, and their signs."""
        generator = torch.Generator().manual_seed(hash((self.seed, self.turn)) % 2**63)
        shape = self.workload.rows, self.workload.widths[0]
        values = torch.randint(-2, 3, shape, generator=generator, dtype=torch.int8)
        columns = []
        for inner, outer in self.workload.weights:
            count = NONZEROS if self.workload.activation else max(NONZEROS, min(MOST_NONZEROS, NARROW // outer))
            index = torch.randint(inner, (count, outer), generator=generator)
            sign = torch.where(torch.arange(count) % 3 == 2, -1, 1).to(torch.int8)[:, None].expand_as(index)
            columns.append((index, sign))
        return values, columns

    @property
    def input(self) -> Tensor:
        return self.drawn[0]

    @property
    def columns(self) -> list[tuple[Tensor, Tensor]]:
        return self.drawn[1]

    def result(self, part: Part) -> Tensor:
        """A part of the output on the CPU: float32, or float64 where that is the dtype."""
        rows, columns = part
        values = self.input[rows].to(self.wide)
        if not self.workload.weights:
            return 2 * values[:, columns].clamp(min=0)
        for index, sign in self.columns:
            values = sum(values[:, where] * signs for where, signs in zip(index, sign, strict=True))
            if self.workload.activation:
                values = values.clamp(min=0)
        return values[:, columns]

    def require(self, output: Tensor, part: Part) -> None:
        """Raises InvalidResult with the first element of a part of the output that is wrong."""
        expected, got = self.result(part), output.cpu().to(self.wide)
        if got.shape != expected.shape:
            raise InvalidResult(f"the output has {tuple(got.shape)} elements, expected {tuple(expected.shape)}")
        wrong = got != expected
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            place = f"[{part[0].start + row}, {part[1].start + column}]"
            raise InvalidResult(
                f"element {place}: {got[row, column].item()}, expected {expected[row, column].item()} "
                f"({int(wrong.sum())} of {wrong.numel()} wrong)"
            )
