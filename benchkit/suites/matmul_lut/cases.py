"""One square matrix product as a case; every rank multiplies matrices of its own."""

from collections.abc import Sequence
from functools import partial

import torch

from benchkit.api import lut
from benchkit.api.capture import CapturableStep
from benchkit.api.case import Case, Rank, Work
from benchkit.errors import InvalidResult
from benchkit.suites.matmul_lut.config import MatmulLutConfig

CHECKED_ROWS = 16


def matmul(size: int, config: MatmulLutConfig, rank: Rank) -> Case:
    """Builds the case of one size.

    The matrices [size, size] hold -1, 0 and 1, so the product is exact in every dtype, up to one
    rounding.
    """
    labels = {lut.SIZE: size}
    dtype = getattr(torch, config.dtype)
    check_bytes = 8 * size**2  # the check multiplies in float64
    needed_bytes = (3 + config.bg_streams) * size**2 * dtype.itemsize + check_bytes
    if shortage := rank.memory_shortage(needed_bytes):
        return Case(labels=labels, skip=shortage)
    generator = torch.Generator().manual_seed(rank.seed + rank.index)

    def draw() -> torch.Tensor:
        values = torch.randint(-1, 2, (size, size), generator=generator, dtype=torch.int8)
        return values.to(rank.device, dtype)

    left, right = draw(), draw()
    product = torch.empty_like(left)
    streams = [torch.cuda.Stream(rank.device) for _ in range(config.bg_streams)]
    background = [(stream, torch.empty_like(left)) for stream in streams]
    step = CapturableStep(partial(multiply, left, right, product, background))

    def verify() -> None:
        left.copy_(draw())
        product.fill_(float("nan"))
        step()
        rows = torch.randint(size, (min(size, CHECKED_ROWS),), generator=generator)
        require_rows(product, left, right, rows.to(rank.device))

    work = Work(useful_flops=2.0 * size**3 * rank.world_size)
    return Case(step=step, labels=labels, verify=verify, work=work)


def multiply(
    left: torch.Tensor,
    right: torch.Tensor,
    product: torch.Tensor,
    background: Sequence[tuple[torch.cuda.Stream, torch.Tensor]],
) -> None:
    """Multiplies on the current stream, and meanwhile on others, to other outputs.

    The others begin after what was queued before, and the current stream waits for their end.
    """
    for stream, other in background:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.mm(left, right, out=other)
    torch.mm(left, right, out=product)
    for stream, _ in background:
        torch.cuda.current_stream().wait_stream(stream)


def require_rows(
    product: torch.Tensor, left: torch.Tensor, right: torch.Tensor, rows: torch.Tensor
) -> None:
    """Raises InvalidResult where some rows of a product differ from float64."""
    expected = (left[rows].double() @ right.double()).to(product.dtype)
    wrong = product[rows] != expected
    if wrong.any():
        first, column = wrong.nonzero()[0].tolist()
        got = product[rows][first, column].item()
        want = expected[first, column].item()
        raise InvalidResult(f"element [{int(rows[first])}, {column}]: {got}, expected {want}")
