"""Measure costs for the planner: changes of layout, products, creation, elementwise operations."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from benchkit.api.case import SecondsOf, noop
from benchkit.api.drawing import size_of
from benchkit.suites.auto_shard.planner import (
    COLUMNS,
    MOVES,
    PARTIAL,
    REPLICATED,
    ROWS,
    Layout,
    Link,
    ShardingCosts,
)
from benchkit.suites.auto_shard.program import fetch_whole, part_of, redistribute, to_dtensor
from benchkit.suites.auto_shard.workloads import ChainWorkload

SMALL = 64  # side of the matrix whose moves cost little beyond latency
LARGEST = {"cpu": 1024, "cuda": 8192}
"""Side of the largest matrix that is moved or multiplied, to learn the device's rates."""
FETCHED = (ROWS, COLUMNS)


def measure_costs(
    workload: ChainWorkload,
    devices: int,
    mesh: DeviceMesh | None,
    device: torch.device,
    dtype: torch.dtype,
    seconds_of: SecondsOf,
) -> ShardingCosts:
    """Time every operation and message on all devices at once; the slowest device counts.

    All ranks call this together. `mesh` is None on a rank that is not one of the devices.
    """
    most = LARGEST[device.type]
    large = min(most, max(workload.rows, *workload.widths, 4 * SMALL))
    sizes = (-(-workload.rows // devices), *largest_weight(workload))
    m, k, n = (min(size, most) for size in sizes)
    calls: list[Callable[[], object]] = [noop] * (2 * (len(MOVES) + len(FETCHED)) + 3)
    if mesh is not None:
        calls = messages((SMALL, large), mesh, dtype) + computations(m, k, n, device, dtype)
    with torch.no_grad():
        times = iter([max(per_rank) for per_rank in seconds_of(*calls)])
    small_bytes, large_bytes = matrix_bytes(SMALL, dtype), matrix_bytes(large, dtype)
    return ShardingCosts(
        devices=devices,
        itemsize=dtype.itemsize,
        moves={move: link(times, small_bytes, large_bytes) for move in MOVES},
        fetch={layout: link(times, small_bytes, large_bytes) for layout in FETCHED},
        flop_s=next(times) / (2.0 * m * k * n),
        create_s=next(times) / (m * n),
        touch_s=next(times) / (m * n),
    )


def messages(
    sides: Sequence[int], mesh: DeviceMesh, dtype: torch.dtype
) -> list[Callable[[], object]]:
    calls: list[Callable[[], object]] = []
    for source, target in MOVES:
        calls += [partial(move, matrix(side, source, mesh, dtype), target) for side in sides]
    for layout in FETCHED:
        calls += [partial(fetch_whole, matrix(side, layout, mesh, dtype), layout) for side in sides]
    return calls


def computations(
    m: int, k: int, n: int, device: torch.device, dtype: torch.dtype
) -> list[Callable[[], object]]:
    """Return calls that multiply [m, k] by [k, n], create [m, n], and apply relu to it."""
    left = torch.randn(m, k, device=device, dtype=dtype)
    right = torch.randn(k, n, device=device, dtype=dtype)
    block = torch.randn(m, n, device=device, dtype=dtype)
    create = partial(torch.randn, m, n, device=device, dtype=dtype)
    return [partial(torch.mm, left, right), create, block.relu]


def largest_weight(workload: ChainWorkload) -> tuple[int, int]:
    if not workload.weights:
        return SMALL, workload.widths[0]
    return max(workload.weights, key=lambda shape: shape[0] * shape[1])


def matrix_bytes(side: int, dtype: torch.dtype) -> int:
    return int(side * side * dtype.itemsize)


def matrix(side: int, layout: Layout, mesh: DeviceMesh, dtype: torch.dtype) -> Tensor:
    shape = (side, side)
    part_layout = REPLICATED if layout == PARTIAL else layout
    part = part_of(shape, part_layout, mesh.size(), mesh.get_local_rank())
    ones = torch.ones(size_of(part), dtype=dtype, device=mesh.device_type)
    return to_dtensor(ones, shape, layout, mesh)


def move(source: Tensor, layout: Layout) -> None:
    redistribute(source, layout)


def link(times: Iterator[float], small_bytes: int, large_bytes: int) -> Link:
    small_s, large_s = next(times), next(times)
    byte_s = max(0.0, large_s - small_s) / (large_bytes - small_bytes)
    return Link(max(0.0, small_s - byte_s * small_bytes), byte_s)
