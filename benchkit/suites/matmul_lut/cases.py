"""One square matrix product, on as many ranks as there are."""

import torch

from benchkit.api.case import Case, Rank, Work
from benchkit.errors import InvalidResult
from benchkit.suites.matmul_lut.config import MatmulLutConfig

CHECKED_ROWS = 16


def matmul(size: int, config: MatmulLutConfig, rank: Rank) -> Case:
    """The product of two matrices [size, size] of -1, 0 and 1: exact in every dtype, up to one rounding."""
    labels = {"size": size}
    dtype = getattr(torch, config.dtype)
    needed = (3 + config.bg_streams) * size**2 * dtype.itemsize + 8 * size**2  # the check multiplies in float64
    if shortage := rank.memory_shortage(needed):
        return Case(labels=labels, skip=shortage)
    generator = torch.Generator().manual_seed(rank.seed + rank.index)

    def draw() -> torch.Tensor:
        return torch.randint(-1, 2, (size, size), generator=generator, dtype=torch.int8).to(rank.device, dtype)

    left, right = draw(), draw()
    product = torch.empty_like(left)
    streams = [torch.cuda.Stream(rank.device) for _ in range(config.bg_streams)]
    others = [torch.empty_like(left) for _ in streams]

    def step() -> None:
        for stream, other in zip(streams, others, strict=True):
            with torch.cuda.stream(stream):
                torch.mm(left, right, out=other)
        torch.mm(left, right, out=product)

    def verify() -> None:
        left.copy_(draw())
        product.fill_(float("nan"))
        step()
        rows = torch.randint(size, (min(size, CHECKED_ROWS),), generator=generator).to(rank.device)
        expected = (left[rows].double() @ right.double()).to(dtype)
        if (wrong := product[rows] != expected).any():
            first, column = wrong.nonzero()[0].tolist()
            got, want = product[rows][first, column].item(), expected[first, column].item()
            raise InvalidResult(f"element [{int(rows[first])}, {column}]: {got}, expected {want}")

    return Case(step=step, labels=labels, verify=verify, work=Work(useful_flops=2.0 * size**3 * rank.world_size))
