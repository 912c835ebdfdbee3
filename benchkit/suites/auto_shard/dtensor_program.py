"""Executes a plan with torch's DTensor: parts of operands, changes of layout, local products."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from benchkit.api import p2p
from benchkit.api.device_wait import wait_for_device
from benchkit.api.regions import region
from benchkit.suites.auto_shard.layouts import COLUMNS, PARTIAL, REPLICATED, ROWS, Layout
from benchkit.suites.auto_shard.names import COMMUNICATE, COMPUTE
from benchkit.suites.auto_shard.operands import part_of
from benchkit.suites.auto_shard.plans import Layer
from benchkit.suites.auto_shard.program import Program

PLACEMENTS: dict[Layout, Placement] = {
    ROWS: Shard(0),
    COLUMNS: Shard(1),
    REPLICATED: Replicate(),
    PARTIAL: Partial(),
}


@dataclass
class Sharded(Program):
    """One rank's part of a plan on the devices of a mesh."""

    mesh: DeviceMesh

    def operand(self, number: int) -> Tensor:
        layout = self.plan.at_rest[number]
        return distributed(super().operand(number), self.shape(number), layout, self.mesh)

    def run(self, operands: list[Tensor]) -> Tensor:
        """Executes the plan; nothing moves where layouts are as the plan needs them."""
        if not self.workload.weights:
            return super().run(operands)
        x, *weights = operands
        for layer, weight in zip(self.plan.layers, weights, strict=True):
            x = self.product(x, weight, layer)
        return x

    def product(self, x: Tensor, weight: Tensor, layer: Layer) -> Tensor:
        with region(COMMUNICATE):
            x = moved(x, layer.mode.input)
            weight = moved(weight, layer.mode.weight)
        with region(COMPUTE):
            x = x @ weight
        with region(COMMUNICATE):
            x = moved(x, layer.output)
        with region(COMPUTE):
            return self.activated(x)

    def fetch(self, output: Tensor) -> Tensor | None:
        return fetched(cast(DTensor, output), self.plan.layout)

    def result(self, output: Tensor) -> Tensor:
        return output.to_local() if isinstance(output, DTensor) else output


def distributed(part: Tensor, shape: tuple[int, int], layout: Layout, mesh: DeviceMesh) -> DTensor:
    """Returns this rank's part of a matrix of a shape [rows, columns] as a DTensor."""
    return DTensor.from_local(
        part,
        mesh,
        [PLACEMENTS[layout]],
        run_check=False,
        shape=torch.Size(shape),
        stride=(shape[1], 1),
    )


def moved(matrix: Tensor, layout: Layout) -> Tensor:
    """Returns a matrix in another layout; the move is done when this returns."""
    assert isinstance(matrix, DTensor)
    placement = PLACEMENTS[layout]
    if matrix.placements == (placement,):
        return matrix
    return matrix.redistribute(placements=[placement])


def fetched(matrix: DTensor, layout: Layout) -> Tensor | None:
    """Returns the whole matrix in host memory on the mesh's first rank; None on the others.

    Each rank sends its part directly to the first.
    """
    mesh, part = matrix.device_mesh, matrix.to_local()
    wait_for_device(part)
    shape = (matrix.shape[0], matrix.shape[1])
    ranks: list[int] = mesh.mesh.tolist()
    me, group = mesh.get_local_rank(), mesh.get_group()
    if layout == REPLICATED:
        return None if me else part.cpu()
    if me:
        outgoing = [(part.contiguous(), ranks[0])] if part.numel() else []
        sending, _ = p2p.start(outgoing, [], group)
        for work in sending:
            work.wait()
        return None
    whole = part.new_empty(shape)
    places = [whole[part_of(shape, layout, len(ranks), index)] for index in range(len(ranks))]
    # Rows are received in place. Columns are not contiguous there and need buffers.
    buffers = [place if layout == ROWS else place.new_empty(place.shape) for place in places]
    others = zip(buffers[1:], ranks[1:], strict=True)
    arriving = [(buffer, rank) for buffer, rank in others if buffer.numel()]
    _, works = p2p.start([], arriving, group)
    places[0].copy_(part)
    for work in works:
        work.wait()
    if layout == COLUMNS:
        for place, buffer in zip(places[1:], buffers[1:], strict=True):
            place.copy_(buffer)
    wait_for_device(whole)
    return whole.cpu()
