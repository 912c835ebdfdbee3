"""Operands: random ones to time, and exact ones whose result is known without a matrix product."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from benchkit.api.device_wait import wait_for_device
from benchkit.errors import InvalidResult
from benchkit.suites.auto_shard.layouts import COLUMNS, ROWS, Layout
from benchkit.suites.auto_shard.workloads import Workload

Part = tuple[slice, slice]
"""Rows and columns of a matrix."""
Source = Callable[[int, Part], Tensor]
"""Returns a part of an operand; operand 0 is the input, then come the weights."""
NONZEROS = 3
"""Nonzero entries in each column of an exact weight; every third of them is -1.

With fewer, relu would soon leave only zeros.
"""
MOST_NONZEROS, NARROW = 63, 192
"""The weight of a single product has up to MOST_NONZEROS per column, for NARROW in all.

Otherwise a narrow weight might have a shard without any.
"""


def part_of(shape: tuple[int, int], layout: Layout, devices: int, index: int) -> Part:
    """Returns the part of a matrix that a device has in a layout.

    Shards are those of torch.chunk; the last may be short, or empty.
    """
    rows, columns = shape
    own_rows = shard(rows, devices, index) if layout == ROWS else slice(0, rows)
    own_columns = shard(columns, devices, index) if layout == COLUMNS else slice(0, columns)
    return own_rows, own_columns


def shard(length: int, devices: int, index: int) -> slice:
    share = -(-length // devices)
    return slice(min(index * share, length), min((index + 1) * share, length))


def size_of(part: Part) -> tuple[int, int]:
    rows, columns = part
    return rows.stop - rows.start, columns.stop - columns.start


@dataclass(frozen=True)
class Random:
    """Standard normal numbers; weights made beforehand are scaled to keep values in range."""

    workload: Workload
    generator: torch.Generator
    dtype: torch.dtype

    def __call__(self, operand: int, part: Part) -> Tensor:
        values = torch.randn(
            size_of(part),
            device=self.generator.device,
            dtype=self.dtype,
            generator=self.generator,
        )
        if operand and not self.workload.creates_weights:
            values *= self.workload.widths[operand - 1] ** -0.5
        return values


@dataclass(frozen=True)
class Exact:
    """Integers that differ by turn and position; the same on all ranks.

    They are small enough to be exact in `dtype`. Each column of a weight has a few entries of ±1,
    so each column of a product is the sum of a few columns of its input. Data that is lost,
    doubled, stale or out of place changes the result, and the result is computed by adding
    columns.
    """

    workload: Workload
    device: torch.device
    dtype: torch.dtype
    seed: int
    turn: int

    def __call__(self, operand: int, part: Part) -> Tensor:
        if operand == 0:
            return self.input[part].to(self.device, self.dtype)
        inner, outer = self.workload.weights[operand - 1]
        index, sign = self.columns[operand - 1]
        whole = torch.zeros(inner, outer, dtype=torch.int8).scatter_add_(0, index, sign)
        return whole[part].to(self.device, self.dtype)

    @property
    def wide(self) -> torch.dtype:
        """The dtype in which results are compared."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    @cached_property
    def drawn(self) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """The input, and for each weight the nonzero rows of each column and their signs."""
        generator = torch.Generator().manual_seed(hash((self.seed, self.turn)) % 2**63)
        shape = self.workload.rows, self.workload.widths[0]
        values = torch.randint(-2, 3, shape, generator=generator, dtype=torch.int8)
        columns = []
        for inner, outer in self.workload.weights:
            count = NONZEROS
            if not self.workload.activation:
                count = max(NONZEROS, min(MOST_NONZEROS, NARROW // outer))
            index = torch.randint(inner, (count, outer), generator=generator)
            sign = torch.where(torch.arange(count) % 3 == 2, -1, 1).to(torch.int8)
            columns.append((index, sign[:, None].expand_as(index)))
        return values, columns

    @property
    def input(self) -> Tensor:
        return self.drawn[0]

    @property
    def columns(self) -> list[tuple[Tensor, Tensor]]:
        return self.drawn[1]

    def result(self, part: Part) -> Tensor:
        """Returns a part of the output on the CPU, in float32, or float64 if that is the dtype."""
        rows, columns = part
        values = self.input[rows].to(self.wide)
        if not self.workload.weights:
            return 2 * values[:, columns].clamp(min=0)
        for index, sign in self.columns:
            values = sum(values[:, row] * signs for row, signs in zip(index, sign, strict=True))
            if self.workload.activation:
                values = values.clamp(min=0)
        return values[:, columns]

    def require(self, output: Tensor, part: Part) -> None:
        """Compares a part of the output with the exact result.

        Raises:
            InvalidResult: the shape or an element is wrong; the message names the first element.
        """
        wait_for_device(output)
        expected = self.result(part)
        got = output.cpu().to(self.wide)
        if got.shape != expected.shape:
            found, wanted = tuple(got.shape), tuple(expected.shape)
            raise InvalidResult(f"the output has {found} elements, expected {wanted}")
        wrong = got != expected
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            place = f"[{part[0].start + row}, {part[1].start + column}]"
            value, exact = got[row, column].item(), expected[row, column].item()
            raise InvalidResult(
                f"element {place}: {value}, expected {exact} "
                f"({int(wrong.sum())} of {wrong.numel()} wrong)"
            )
