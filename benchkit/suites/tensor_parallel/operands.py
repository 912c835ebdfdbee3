"""The matrices of one rank: filled for timing or for checking, and checked element for element."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from benchkit.errors import InvalidResult

VECTORS = 2
"""Random vectors of a check: each misses a wrong row with a chance of one in two thousand at most."""
WEIGHTS = 1000
REAL = 1
"""Draws real numbers apart from the integers of a turn. No word, since each process hashes words in its own way."""
NONZEROS = 64
"""Of a row of A in exact inputs: sums of so many ±1 are exact in every dtype, whatever the order and wherever added."""


@dataclass(frozen=True)
class Shards:
    """How many of `total` rows (or columns) each rank has: as even as can be, the first ones one more."""

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
        """Where all are in parts that are padded to the most, one after another."""
        return [rank * self.most + index for rank, size in enumerate(self.sizes) for index in range(size)]

    def of(self, rank: int) -> slice:
        """Where a rank's are among all."""
        start = sum(self.sizes[:rank])
        return slice(start, start + self.sizes[rank])


@dataclass
class Scratch:
    """One stretch of memory that all implementations of a job cut their buffers from, since they run in turns."""

    memory: Tensor
    used: int = 0

    def new(self, rows: int, columns: int) -> Tensor:
        """The next [rows, columns] of it."""
        start, self.used = self.used, self.used + rows * columns
        assert self.used <= len(self.memory), "scratch memory is too small for an implementation"
        return self.memory[start : self.used].view(rows, columns)


@dataclass(frozen=True)
class Factory:
    """Draws the same whole matrices on every rank, of which each keeps its part. Kept on the CPU in small integers."""

    m: int
    n: int
    k: int
    seed: int

    def exact(self, turn: int) -> tuple[Tensor, Tensor]:
        """A [m, k] with at most NONZEROS of ±1 in a row and B [k, n] of -1, 0, 1: int8."""
        generator = torch.Generator().manual_seed(hash((self.seed, turn)) % 2**63)
        a = torch.zeros(self.m, self.k, dtype=torch.int8)
        columns = torch.randint(self.k, (self.m, min(self.k, NONZEROS)), generator=generator)
        signs = torch.randint(0, 2, columns.shape, generator=generator, dtype=torch.int8) * 2 - 1
        a.scatter_(1, columns, signs)
        return a, torch.randint(-1, 2, (self.k, self.n), generator=generator, dtype=torch.int8)

    def real(self, turn: int) -> tuple[Tensor, Tensor]:
        """Both uniform in [-1, 1): float32."""
        generator = torch.Generator().manual_seed(hash((self.seed, turn, REAL)) % 2**63)
        a = torch.rand(self.m, self.k, generator=generator) * 2 - 1
        return a, torch.rand(self.k, self.n, generator=generator) * 2 - 1


def require_exact(output: Tensor, a: Tensor, b: Tensor, first_row: int, seed: int) -> None:
    """Raises InvalidResult unless output [rows, n] equals rows of A [rows, k] times B [k, n], all integers, to the bit.

    Freivalds (1977): output x = A (B x) for random integer vectors x, exactly, in float64. Every element counts, at the
    price of three matrix-vector products.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-WEIGHTS, WEIGHTS + 1, (b.shape[1], VECTORS), generator=generator).to(output.device).double()
    wide = b.to(output.device).double()
    wrong = (output.double() @ x != a.to(output.device).double() @ (wide @ x)).any(1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        expected = a[row].to(output.device).double() @ wide
        columns = (output[row].double() != expected).nonzero()
        column = int(columns[0]) if len(columns) else 0
        got, want = output[row, column].item(), expected[column].item()
        raise InvalidResult(
            f"element [{first_row + row}, {column}]: {got}, expected {want} ({int(wrong.sum())} rows wrong)"
        )


def require_close(output: Tensor, a: Tensor, b: Tensor, first_row: int, seed: int) -> None:
    """Raises InvalidResult where sampled rows are further from float64 than rounding can bring them.

    The error of k products of values up to 1, added in any order and sent in the output's dtype, is about sqrt(k) eps
    (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8); eight times that is let pass.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = (
        torch.randint(len(output), (min(len(output), 16),), generator=generator)
        if len(output)
        else torch.zeros(0).long()
    )
    inputs = (part.to(output.device, output.dtype).double() for part in (a[rows], b))
    expected = torch.matmul(*inputs)
    error = (output[rows.to(output.device)].double() - expected).abs()
    bound = 8 * torch.finfo(output.dtype).eps * (a.shape[1] ** 0.5 + expected.abs())
    if (wrong := ~(error <= bound)).any():
        row, column = wrong.nonzero()[0].tolist()
        raise InvalidResult(
            f"element [{first_row + int(rows[row])}, {column}] is off by {error[row, column].item():.3g}, "
            f"rounding explains {bound[row, column].item():.3g}"
        )
