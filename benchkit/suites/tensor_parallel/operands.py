"""Draw the matrices of a product, divide them over ranks, and check the results."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from benchkit.api.drawing import integers, uniform, whole
from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult

VECTORS = 2
"""Random vectors of a check; each misses a wrong row with a probability of at most 1 in 2000."""
WEIGHTS = 1000
A, B, COLUMNS, SIGNS = range(4)  # kinds of draws, in their keys
NONZEROS = 64
"""Of ±1 that make up a row of exact A: sums of so many are exact in every dtype."""


@dataclass(frozen=True)
class Shards:
    """Shards of rows or columns; the first ranks have one more than the others."""

    total: int
    world_size: int

    @cached_property
    def sizes(self) -> list[int]:
        share, remainder = divmod(self.total, self.world_size)
        return [share + (rank < remainder) for rank in range(self.world_size)]

    @property
    def most(self) -> int:
        return -(-self.total // self.world_size)

    @property
    def even(self) -> bool:
        return self.total % self.world_size == 0

    @property
    def unpadded(self) -> list[int]:
        """Indices of all rows in parts that are padded to the largest."""
        indices: list[int] = []
        for rank, size in enumerate(self.sizes):
            indices.extend(range(rank * self.most, rank * self.most + size))
        return indices

    def of(self, rank: int) -> slice:
        start = sum(self.sizes[:rank])
        return slice(start, start + self.sizes[rank])


@dataclass
class Scratch:
    """Remaining memory for an implementation's buffers; others use the same, one after another."""

    memory: Tensor

    def new(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        size = rows * columns * dtype.itemsize
        assert size <= len(self.memory), "scratch memory is too small for an implementation"
        buffer, self.memory = self.memory[:size], self.memory[size:]
        return buffer.view(dtype).view(rows, columns)


@dataclass(frozen=True)
class Factory:
    """Draws the same whole matrices on every rank."""

    m: int
    n: int
    k: int
    seed: int
    device: torch.device

    def exact(self, turn: int) -> tuple[Tensor, Tensor]:
        """Draw int8: A [m, k] with rows of at most NONZEROS times ±1, B [k, n] of -1, 0 and 1."""
        nonzeros = whole(self.m, min(self.k, NONZEROS))
        columns = integers(nonzeros, 0, self.k, dtype=torch.int64, **self.at(turn, COLUMNS))
        signs = integers(nonzeros, 0, 2, **self.at(turn, SIGNS)) * 2 - 1
        a = torch.zeros(self.m, self.k, dtype=torch.int8, device=self.device)
        # A column that is drawn twice has the sum; of two writes any may be last on a GPU.
        a.scatter_add_(1, columns, signs)
        return a, integers(whole(self.k, self.n), -1, 2, **self.at(turn, B))

    def real(self, turn: int) -> tuple[Tensor, Tensor]:
        """Draw A [m, k] and B [k, n] uniformly from [-1, 1), in float32."""
        a = uniform(whole(self.m, self.k), **self.at(turn, A))
        return a, uniform(whole(self.k, self.n), **self.at(turn, B))

    def rounded(self, turn: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        a, b = self.real(turn)
        return a.to(dtype).to(a.dtype), b.to(dtype).to(b.dtype)

    def at(self, turn: int, what: int) -> dict[str, Any]:
        return {"key": (self.seed, turn, what), "device": self.device}


def unseen_summand(m: int, world_size: int) -> str:
    """Return a remark if exact inputs may not show a rank's summand of the product, or "".

    A rank has columns of A, in which it has 1 / world_size of the nonzeros of m rows, on average.
    """
    shown = m * NONZEROS / world_size
    if shown >= SURELY:
        return ""
    return f"whether a rank's summand is missing: about {shown:.2g} elements of A show each"


SURELY = 16
"""Of so many draws on average there is none once in 1e7 times."""


def require_exact(output: Tensor, a: Tensor, b: Tensor, first_row: int, seed: int) -> None:
    """Raise InvalidResult unless an output of integers equals A times B to the bit.

    Freivalds (1977): output x = A (B x) for random integer vectors x, exactly, in float64. Every
    element counts, and the check costs only three matrix-vector products. The output is [rows, n],
    a [rows, k] and b [k, n]; errors count rows of C from `first_row`.
    """
    wait_for_device(output)
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randint(-WEIGHTS, WEIGHTS + 1, (b.shape[1], VECTORS), generator=generator)
    x = vectors.to(output.device).double()
    wide = b.double()
    wrong = (output.double() @ x != a.double() @ (wide @ x)).any(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        expected = a[row].double() @ wide
        columns = (output[row].double() != expected).nonzero()
        column = int(columns[0]) if len(columns) else 0
        got, want = output[row, column].item(), expected[column].item()
        raise InvalidResult(
            f"element [{first_row + row}, {column}]: {got}, expected {want} "
            f"({int(wrong.sum())} rows wrong)"
        )


SAMPLED = 16
UNSAMPLED = f"rows but {SAMPLED} of each rank, drawn anew in each check"
UNSEEN_FROM = 0.016
"""Ranks x eps^2 from which one rank's summand of real numbers is within rounding.

A summand of k / N products is sqrt(k / N) / 3, at most four times that among the elements checked;
rounding explains 11 sqrt(k) eps of them."""


def require_close(output: Tensor, a: Tensor, b: Tensor, first_row: int, seed: int) -> None:
    """Raise InvalidResult if sampled rows differ from float64 by more than rounding explains.

    The error of k products of values up to 1, added in any order and sent in the output's dtype, is
    about sqrt(k) eps (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8). Eight
    times that is accepted. Shapes are those of `require_exact`.
    """
    wait_for_device(output)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.zeros(0).long()
    if len(output):
        rows = torch.randint(len(output), (min(len(output), SAMPLED),), generator=generator)
    rows = rows.to(output.device)
    expected = a[rows].to(output.dtype).double() @ b.to(output.dtype).double()
    error = (output[rows].double() - expected).abs()
    bound = 8 * torch.finfo(output.dtype).eps * (a.shape[1] ** 0.5 + expected.abs())
    wrong = ~(error <= bound)
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise InvalidResult(
            f"element [{first_row + int(rows[row])}, {column}] is off by "
            f"{error[row, column].item():.3g}, rounding explains {bound[row, column].item():.3g}"
        )
