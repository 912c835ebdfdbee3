"""A workload as one rank runs it: operands, phases of a step, moves by DTensor, the check."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import cast

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from benchkit.api import p2p
from benchkit.api.case import Call
from benchkit.api.drawing import BITS, Part, integers, size_of, whole
from benchkit.api.memory import wait_for_device
from benchkit.api.regions import region
from benchkit.errors import InvalidResult
from benchkit.suites.auto_shard.planner import (
    COLUMNS,
    PARTIAL,
    REPLICATED,
    ROWS,
    LayerSharding,
    Layout,
    ShardPlan,
)
from benchkit.suites.auto_shard.workloads import (
    CHECKED_ROWS,
    COMMUNICATE,
    COMPUTE,
    CREATE,
    FETCH,
    ChainWorkload,
)

Source = Callable[[int, Part], Tensor]
"""Returns a part of an operand. Operand 0 is the input, then come the weights."""
NONZEROS = 3
"""Nonzero entries in a column of an exact weight, every third -1; fewer would soon be all 0."""
MOST_NONZEROS, NARROW = 63, 192
"""A single product's weight has more, or a shard of a narrow one might have none."""


def part_of(shape: tuple[int, int], layout: Layout, devices: int, index: int) -> Part:
    """Return the part of a matrix that a device has; shards are those of torch.chunk."""
    rows, columns = shape
    own_rows = shard(rows, devices, index) if layout == ROWS else slice(0, rows)
    own_columns = shard(columns, devices, index) if layout == COLUMNS else slice(0, columns)
    return own_rows, own_columns


def shard(length: int, devices: int, index: int) -> slice:
    share = -(-length // devices)
    return slice(min(index * share, length), min((index + 1) * share, length))


@dataclass(frozen=True)
class Random:
    """Standard normal numbers; weights made beforehand are scaled to keep values in range."""

    workload: ChainWorkload
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


def nonzeros_of(workload: ChainWorkload, outer: int) -> int:
    """Return the nonzero entries in each of so many columns of an exact weight."""
    if workload.activation:
        return NONZEROS
    return max(NONZEROS, min(MOST_NONZEROS, NARROW // outer))


def unseen_devices(workload: ChainWorkload, devices: int) -> str:
    """Return a remark if exact weights are too small to show each device's part, or ""."""
    entries = min(
        (nonzeros_of(workload, outer) * outer for _, outer in workload.weights), default=0
    )
    if not workload.weights or entries >= 2 * devices:
        return ""
    return (
        f"whether a device's part of a product is missing: {entries} elements of a weight are "
        f"checked, of {devices} devices"
    )


@dataclass(frozen=True)
class ExactIntegers:
    """Integers that differ by turn and position; the same on all ranks.

    They are small enough to be exact in `dtype`. A column of a weight has a few entries of ±1, so a
    column of a product is the sum of a few columns of its input. Data that is lost, doubled, stale
    or out of place changes the result.
    """

    workload: ChainWorkload
    device: torch.device
    dtype: torch.dtype
    seed: int
    turn: int

    def __call__(self, operand: int, part: Part) -> Tensor:
        if operand == 0:
            return self.input(part).to(self.dtype)
        rows, columns = part
        index, sign = self.nonzeros(operand)
        index, sign = index[:, columns], sign[:, columns]
        inner, _ = self.workload.weights[operand - 1]
        weight = torch.zeros(inner, index.shape[1], dtype=torch.int8, device=self.device)
        return weight.scatter_add_(0, index, sign)[rows].to(self.dtype)

    @property
    def wide(self) -> torch.dtype:
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def input(self, part: Part) -> Tensor:
        return integers(part, -2, 3, key=(self.seed, self.turn, 0), device=self.device)

    def nonzeros(self, operand: int) -> tuple[Tensor, Tensor]:
        """Draw the nonzero rows of each column of a weight, and their signs: [count, columns].

        All rows are divided evenly over the entries, so that each device's share of rows has some.
        """
        inner, outer = self.workload.weights[operand - 1]
        count = nonzeros_of(self.workload, outer)
        entries, key = whole(1, count * outer), (self.seed, self.turn, operand)
        drawn = {"device": self.device, "dtype": torch.int64}
        order = integers(entries, 0, 2**BITS, key=(*key, 0), **drawn).argsort(stable=True)
        index = (
            order * inner + integers(entries, 0, inner, key=(*key, 1), **drawn)
        ) // order.numel()
        index = index.view(count, outer)
        sign = torch.where(torch.arange(count, device=self.device) % 3 == 2, -1, 1)
        return index, sign.to(torch.int8)[:, None].expand_as(index)

    def result(self, part: Part) -> Tensor:
        rows, columns = part
        values = self.input((rows, slice(0, self.workload.widths[0]))).to(self.wide)
        if not self.workload.weights:
            return 2 * values[:, columns].clamp(min=0)
        for operand in range(1, len(self.workload.widths)):
            index, sign = self.nonzeros(operand)
            values = sum(values[:, row] * signs for row, signs in zip(index, sign, strict=True))
            if self.workload.activation:
                values = values.clamp(min=0)
        return values[:, columns]

    def require(self, output: Tensor, part: Part) -> None:
        """Raise InvalidResult unless an output, wherever it is, equals a part of the result."""
        wait_for_device(output)
        if output.shape != size_of(part):
            shape, wanted = tuple(output.shape), size_of(part)
            raise InvalidResult(f"the output has {shape} elements, expected {wanted}")
        rows, columns = part
        for first in range(rows.start, rows.stop, CHECKED_ROWS):
            row_range = slice(first, min(first + CHECKED_ROWS, rows.stop))
            expected = self.result((row_range, columns))
            got = output[first - rows.start :][: len(expected)].to(self.device, self.wide)
            wrong = got != expected
            if wrong.any():
                row, column = wrong.nonzero()[0].tolist()
                place = f"[{first + row}, {columns.start + column}]"
                value, exact = got[row, column].item(), expected[row, column].item()
                raise InvalidResult(
                    f"element {place}: {value}, expected {exact} "
                    f"({int(wrong.sum())} of {wrong.numel()} wrong in these rows)"
                )


@dataclass
class ChainProgram:
    """One rank's part of a workload; this class is for a device that has all of it.

    `index` is the device's number in the plan. `resident` has this rank's parts of the operands
    that a step does not create, `output` its part of the result after a step, or None.
    """

    workload: ChainWorkload
    plan: ShardPlan
    device: torch.device
    dtype: torch.dtype
    index: int
    seed: int
    end_to_end: bool
    source: Source = field(init=False)
    resident: list[Tensor] = field(init=False, default_factory=list)
    output: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.turns = count()
        generator = torch.Generator(self.device).manual_seed(hash((self.seed, self.index)) % 2**63)
        self.random = Random(self.workload, generator, self.dtype)
        self.load(self.random)

    def load(self, source: Source) -> None:
        """Load operands from another source; those that a step does not create stay in place."""
        self.source = source
        self.output = None
        for index, number in enumerate(range(self.num_created(), 1 + len(self.plan.layers))):
            operand = self.operand(number)
            if index == len(self.resident):
                self.resident.append(operand)
            else:
                self.result(self.resident[index]).copy_(self.result(operand))

    def num_created(self) -> int:
        return self.workload.num_created if self.end_to_end else 0

    def step(self) -> None:
        self.output = None  # so that a step needs no memory for two results
        with torch.no_grad():
            if not self.end_to_end:
                self.output = self.run(self.resident)
                return
            with region(CREATE):
                created = [self.operand(number) for number in range(self.num_created())]
                self.wait_for_operands()
            output = self.run([*created, *self.resident])
            with region(FETCH):
                self.output = self.fetch(output)

    def operand(self, number: int) -> Tensor:
        return self.source(number, self.part(self.shape(number), self.plan.at_rest[number]))

    def wait_for_operands(self) -> None:
        """A dispatcher waits here until all ranks have created their operands."""

    def run(self, operands: list[Tensor]) -> Tensor:
        with region(COMPUTE):
            x = operands[0]
            if not self.workload.weights:
                return x.relu() * 2
            for weight in operands[1:]:
                x = self.activate(x @ weight)
            return x

    def activate(self, x: Tensor) -> Tensor:
        return x.relu() if self.workload.activation else x

    def fetch(self, output: Tensor) -> Tensor | None:
        return output.cpu()

    def shape(self, number: int) -> tuple[int, int]:
        if number == 0:
            return self.workload.rows, self.workload.widths[0]
        return self.workload.weights[number - 1]

    def part(self, shape: tuple[int, int], layout: Layout) -> Part:
        return part_of(shape, layout, self.plan.devices, self.index)

    def output_part(self) -> Part:
        return self.part(self.workload.output, REPLICATED if self.end_to_end else self.plan.layout)

    def verify(self, call: Call) -> None:
        exact = ExactIntegers(self.workload, self.device, self.dtype, self.seed, next(self.turns))
        self.load(exact)
        try:
            call(self.poison_output)
            if self.output is None and not (self.end_to_end and self.index):
                raise InvalidResult("the call left no output")
            if self.output is not None:
                exact.require(self.result(self.output), self.output_part())
        finally:
            self.load(self.random)

    def poison_output(self) -> None:
        """Overwrite the output of an earlier step, which must not be the output again."""
        if self.output is not None:
            self.result(self.output).fill_(float("nan"))
        self.output = None

    def result(self, output: Tensor) -> Tensor:
        return output


PLACEMENTS: dict[Layout, Placement] = {
    ROWS: Shard(0),
    COLUMNS: Shard(1),
    REPLICATED: Replicate(),
    PARTIAL: Partial(),
}


@dataclass
class Sharded(ChainProgram):
    mesh: DeviceMesh

    def operand(self, number: int) -> Tensor:
        layout = self.plan.at_rest[number]
        return to_dtensor(super().operand(number), self.shape(number), layout, self.mesh)

    def run(self, operands: list[Tensor]) -> Tensor:
        if not self.workload.weights:
            return super().run(operands)
        x, *weights = operands
        for layer, weight in zip(self.plan.layers, weights, strict=True):
            x = self.product(x, weight, layer)
        return x

    def product(self, x: Tensor, weight: Tensor, layer: LayerSharding) -> Tensor:
        with region(COMMUNICATE):
            x = redistribute(x, layer.mode.input)
            weight = redistribute(weight, layer.mode.weight)
        with region(COMPUTE):
            x = x @ weight
        with region(COMMUNICATE):
            x = redistribute(x, layer.output)
        with region(COMPUTE):
            return self.activate(x)

    def fetch(self, output: Tensor) -> Tensor | None:
        return fetch_whole(cast(DTensor, output), self.plan.layout)

    def result(self, output: Tensor) -> Tensor:
        return output.to_local() if isinstance(output, DTensor) else output


def to_dtensor(part: Tensor, shape: tuple[int, int], layout: Layout, mesh: DeviceMesh) -> DTensor:
    return DTensor.from_local(
        part,
        mesh,
        [PLACEMENTS[layout]],
        run_check=False,
        shape=torch.Size(shape),
        stride=(shape[1], 1),
    )


def redistribute(matrix: Tensor, layout: Layout) -> Tensor:
    """Return a matrix in another layout; the move is done when this returns."""
    assert isinstance(matrix, DTensor)
    placement = PLACEMENTS[layout]
    if matrix.placements == (placement,):
        return matrix
    return matrix.redistribute(placements=[placement])


def fetch_whole(matrix: DTensor, layout: Layout) -> Tensor | None:
    """Return the whole matrix in host memory on the mesh's first rank; None on the others."""
    mesh, part = matrix.device_mesh, matrix.to_local()
    wait_for_device(part)
    shape = (matrix.shape[0], matrix.shape[1])
    ranks: list[int] = mesh.mesh.tolist()
    index_here, group = mesh.get_local_rank(), mesh.get_group()
    if layout == REPLICATED:
        return None if index_here else part.cpu()
    if index_here:
        outgoing = [(part.contiguous(), ranks[0])] if part.numel() else []
        p2p.start_transfers(outgoing, [], group).wait()
        return None
    whole = part.new_empty(shape)
    places = [whole[part_of(shape, layout, len(ranks), index)] for index in range(len(ranks))]
    # Rows are received in place. Columns are not contiguous there and need buffers.
    buffers = [place if layout == ROWS else place.new_empty(place.shape) for place in places]
    senders = zip(buffers[1:], ranks[1:], strict=True)
    arriving = [(buffer, rank) for buffer, rank in senders if buffer.numel()]
    transfers = p2p.start_transfers([], arriving, group)
    places[0].copy_(part)
    transfers.wait()
    if layout == COLUMNS:
        for place, buffer in zip(places[1:], buffers[1:], strict=True):
            place.copy_(buffer)
    wait_for_device(whole)
    return whole.cpu()
