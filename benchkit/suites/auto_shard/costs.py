"""What things cost here, for the planner: changes of layout as DTensor makes them, products, creating, touching."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from benchkit.api.case import noop
from benchkit.suites.auto_shard.dtensor_program import distributed, fetched, moved
from benchkit.suites.auto_shard.operands import part_of, size_of
from benchkit.suites.auto_shard.plans import COLUMNS, MOVES, PARTIAL, REPLICATED, ROWS, Costs, Link
from benchkit.suites.auto_shard.workloads import Workload

SecondsOf = Callable[..., list[list[float]]]
SMALL = 64
"""Rows and columns of the matrix whose moves cost little but latency."""
LARGEST = {"cpu": 1024, "cuda": 8192}
"""Rows and columns of the largest matrix that is moved or multiplied to learn the rates of a device."""


def measure_costs(
    workload: Workload, mesh: DeviceMesh, member: bool, device: torch.device, dtype: torch.dtype, seconds_of: SecondsOf
) -> Costs:
    """Times everything on the devices of a mesh at once, the slowest counts. All ranks call this together.

    member: whether this rank is one of the mesh; the others take part in the exchange of times alone.
    """
    devices, most = mesh.size(), LARGEST[device.type]
    large = min(most, max(workload.rows, *workload.widths, 4 * SMALL))
    moves = [(source, target, side) for source, target in MOVES for side in (SMALL, large)]
    fetches = [(layout, side) for layout in (ROWS, COLUMNS) for side in (SMALL, large)]
    m, k, n = (min(size, most) for size in (-(-workload.rows // devices), *largest(workload)))
    calls: Sequence[Callable[[], object]] = [noop] * (len(moves) + len(fetches) + 3)
    if member:
        left, right, block = (torch.randn(shape, device=device, dtype=dtype) for shape in ((m, k), (k, n), (m, n)))
        calls = [
            *(partial(move, matrix(side, source, mesh, dtype), target) for source, target, side in moves),
            *(partial(fetched, matrix(side, layout, mesh, dtype), layout) for layout, side in fetches),
            partial(torch.mm, left, right),
            partial(torch.randn, m, n, device=device, dtype=dtype),
            block.relu,
        ]
    with torch.no_grad():
        times = iter([max(per_rank) for per_rank in seconds_of(*calls)])
    bytes_of = partial(matrix_bytes, dtype=dtype)
    return Costs(
        devices=devices,
        itemsize=dtype.itemsize,
        moves={move: link(times, bytes_of(SMALL), bytes_of(large)) for move in MOVES},
        fetch={layout: link(times, bytes_of(SMALL), bytes_of(large)) for layout in (ROWS, COLUMNS)},
        flop_s=next(times) / (2.0 * m * k * n),
        create_s=next(times) / (m * n),
        touch_s=next(times) / (m * n),
    )


def largest(workload: Workload) -> tuple[int, int]:
    """Sizes of the weight with the most work; of something where there is none."""
    return max(workload.weights, key=lambda shape: shape[0] * shape[1], default=(SMALL, workload.widths[0]))


def matrix_bytes(side: int, dtype: torch.dtype) -> int:
    return int(side * side * dtype.itemsize)


def matrix(side: int, layout: str, mesh: DeviceMesh, dtype: torch.dtype) -> Tensor:
    """A square one of ones."""
    shape = (side, side)
    held = REPLICATED if layout == PARTIAL else layout
    part = part_of(shape, held, mesh.size(), mesh.get_local_rank())
    return distributed(torch.ones(size_of(part), dtype=dtype, device=mesh.device_type), shape, layout, mesh)


def move(of: Tensor, layout: str) -> None:
    moved(of, layout)


def link(times: Iterator[float], small_bytes: int, large_bytes: int) -> Link:
    """The line through the next two times."""
    small_s, large_s = next(times), next(times)
    byte_s = max(0.0, large_s - small_s) / (large_bytes - small_bytes)
    return Link(max(0.0, small_s - byte_s * small_bytes), byte_s)
