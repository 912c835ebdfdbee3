"""Draw the matrices of a product, divide them over ranks, and check the results."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult

VECTORS = 2
"""Random vectors of a check; each misses a wrong row with a probability of at most 1 in 2000."""
WEIGHTS = 1000
REAL = 1
"""Sets the seed of real numbers apart; a number, as each process hashes strings differently."""
NONZEROS = 64
"""Nonzeros in a row of exact A: sums of so many ±1 are exact in every dtype."""


@dataclass(frozen=True)
class Shards:
    """Shards of rows or columns; the first ranks have one more than the others."""

    total: int
    world_size: int

    @cached_property
    def sizes(self) -> list[int]:
        share, more = divmod(self.total, self.world_size)
        return [share + (rank < more) for rank in range(self.world_size)]

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
    """Memory left for an implementation's buffers; others run in the same one, in turns."""

    memory: Tensor

    def new(self, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
        size = rows * columns * dtype.itemsize
        assert size <= len(self.memory), "scratch memory is too small for an implementation"
        buffer, self.memory = self.memory[:size], self.memory[size:]
        return buffer.view(dtype).view(rows, columns)


@dataclass(frozen=True)
class Factory:
    """Draws the same whole matrices on every rank, on the CPU."""

    m: int
    n: int
    k: int
    seed: int

    def exact(self, turn: int) -> tuple[Tensor, Tensor]:
        """Draw int8: A [m, k] with at most NONZEROS of ±1 in a row, and B [k, n] of -1, 0, 1."""
        generator = torch.Generator().manual_seed(hash((self.seed, turn)) % 2**63)
        a = torch.zeros(self.m, self.k, dtype=torch.int8)
        columns = torch.randint(self.k, (self.m, min(self.k, NONZEROS)), generator=generator)
        signs = torch.randint(0, 2, columns.shape, generator=generator, dtype=torch.int8) * 2 - 1
        a.scatter_(1, columns, signs)
        return a, torch.randint(-1, 2, (self.k, self.n), generator=generator, dtype=torch.int8)

    def real(self, turn: int) -> tuple[Tensor, Tensor]:
        """Draw A [m, k] and B [k, n] uniformly from [-1, 1), in float32."""
        generator = torch.Generator().manual_seed(hash((self.seed, turn, REAL)) % 2**63)
        a = torch.rand(self.m, self.k, generator=generator) * 2 - 1
        return a, torch.rand(self.k, self.n, generator=generator) * 2 - 1

    def rounded(self, turn: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        a, b = self.real(turn)
        return a.to(dtype).to(a.dtype), b.to(dtype).to(b.dtype)


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
    wide = b.to(output.device).double()
    wrong = (output.double() @ x != a.to(output.device).double() @ (wide @ x)).any(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        expected = a[row].to(output.device).double() @ wide
        columns = (output[row].double() != expected).nonzero()
        column = int(columns[0]) if len(columns) else 0
        got, want = output[row, column].item(), expected[column].item()
        raise InvalidResult(
            f"element [{first_row + row}, {column}]: {got}, expected {want} "
            f"({int(wrong.sum())} rows wrong)"
        )


def require_close(output: Tensor, a: Tensor, b: Tensor, first_row: int, seed: int) -> None:
    """Raise InvalidResult where sampled rows differ from float64 by more than rounding explains.

    The error of k products of values up to 1, added in any order and sent in the output's dtype, is
    about sqrt(k) eps (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8). Eight
    times that is accepted. Shapes are those of `require_exact`.
    """
    wait_for_device(output)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.zeros(0).long()
    if len(output):
        rows = torch.randint(len(output), (min(len(output), 16),), generator=generator)
    left = a[rows].to(output.device, output.dtype).double()
    right = b.to(output.device, output.dtype).double()
    expected = left @ right
    error = (output[rows.to(output.device)].double() - expected).abs()
    bound = 8 * torch.finfo(output.dtype).eps * (a.shape[1] ** 0.5 + expected.abs())
    wrong = ~(error <= bound)
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise InvalidResult(
            f"element [{first_row + int(rows[row])}, {column}] is off by "
            f"{error[row, column].item():.3g}, rounding explains {bound[row, column].item():.3g}"
        )
