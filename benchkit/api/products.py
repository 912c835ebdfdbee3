"""Matrix products: multiplication in a dtype, and exact checks of products.

Timed factors are random normal numbers. Checked factors are -1, 0 and 1, so every partial sum is a
small integer. They toggle so few bits that a GPU at its power limit multiplies them faster
(docs/results/gpu.md), so they are not timed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from benchkit.api import torch_internals
from benchkit.api.case import Call, Details
from benchkit.api.memory import wait_for_device
from benchkit.api.sizes import FLOAT8_FAST, FLOAT8_STEP, FLOAT8S
from benchkit.errors import InvalidResult, Reason

CHECKED_ROWS = 16  # rows of a product that are compared with float64
DRAWN_ROWS = 1024


def fill_normal(generator: torch.Generator, *matrices: Tensor) -> None:
    for matrix in matrices:
        for rows in matrix.split(DRAWN_ROWS):
            rows.copy_(torch.randn(rows.shape, generator=generator, device=matrix.device))


def fill_exact(generator: torch.Generator, *matrices: Tensor) -> None:
    for matrix in matrices:
        drawn = {"generator": generator, "device": matrix.device, "dtype": torch.int8}
        for rows in matrix.split(DRAWN_ROWS):
            rows.copy_(torch.randint(-1, 2, rows.shape, **drawn))


def multiply(left: Tensor, right: Tensor, out: Tensor) -> None:
    torch.mm(left, right, out=out)


@dataclass(frozen=True)
class Matmul:
    """Multiplication of matrices of one dtype on one device.

    Attributes:
        dtype: element type of the factors.
        multiply: multiplies [m, k] by [k, n] into a third matrix [m, n].
    """

    device: torch.device
    dtype: torch.dtype
    product_dtype: torch.dtype
    multiply: Callable[[Tensor, Tensor, Tensor], object] = multiply
    details: Details = field(default_factory=dict)

    @property
    def is_float8(self) -> bool:
        return self.dtype is torch.float8_e4m3fn

    def left(self, rows: int, columns: int) -> Tensor:
        return torch.zeros(rows, columns, dtype=self.dtype, device=self.device)

    def right(self, rows: int, columns: int) -> Tensor:
        """Allocate a right factor of zeros, column-major in float8 as the kernel requires."""
        return self.left(columns, rows).t() if self.is_float8 else self.left(rows, columns)

    def product(self, rows: int, columns: int) -> Tensor:
        return torch.zeros(rows, columns, dtype=self.product_dtype, device=self.device)


def matmul_of(dtype_name: str, device: torch.device) -> Matmul:
    """Return the multiplication of a dtype on a device; products of float8 are bfloat16."""
    if dtype_name not in FLOAT8S:
        dtype = getattr(torch, dtype_name)
        return Matmul(device, dtype, dtype)
    unit_scale, is_fast = torch.ones((), device=device), dtype_name == FLOAT8_FAST
    scaled = partial(torch_internals.multiply_float8, unit_scale, fast=is_fast)
    return Matmul(
        device, torch.float8_e4m3fn, torch.bfloat16, scaled, {"product_dtype": "bfloat16"}
    )


def float8_missing(kind: Matmul) -> Reason:
    def multiply() -> None:
        left = kind.left(FLOAT8_STEP, FLOAT8_STEP)
        kind.multiply(left, left.t(), kind.product(FLOAT8_STEP, FLOAT8_STEP))

    return torch_internals.unsupported_reason(f"multiply float8 on {kind.device.type}", multiply)


def matmul_here(dtype_name: str, device: torch.device) -> Matmul:
    """Return `matmul_of` with float32 sums on GPUs, so half precision is rounded once."""
    kind = matmul_of(dtype_name, device)
    if device.type == "cuda" and kind.dtype.itemsize == 2:
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        return replace(kind, details={"reduced_precision_reduction": False})
    return kind


class SquareProduct:
    """A product of matrices [size, size] of random normal numbers, drawn on the device."""

    def __init__(self, kind: Matmul, size: int, seed: int) -> None:
        self._generator = torch.Generator(kind.device).manual_seed(seed)
        self._factors = kind.left(size, size), kind.right(size, size)
        fill_normal(self._generator, *self._factors)
        self.product = kind.product(size, size)
        self.flops = 2.0 * size**3
        self.multiply_into = partial(kind.multiply, *self._factors)
        self.step = partial(self.multiply_into, self.product)

    def verify(self, call: Call) -> None:
        check_product(call, *self._factors, self.product, self._generator)


def check_product(
    call: Call, left: Tensor, right: Tensor, product: Tensor, generator: torch.Generator
) -> None:
    """Check some rows of the product of exact factors; then refill the factors with normal numbers.

    `call` multiplies `left` by `right` into `product`.
    """
    fill_exact(generator, left, right)
    call(lambda: product.fill_(float("nan")))
    size = len(product)
    rows = torch.randint(
        size, (min(size, CHECKED_ROWS),), generator=generator, device=product.device
    )
    require_rows(product, left, right, rows)
    fill_normal(generator, left, right)


def require_rows(product: Tensor, left: Tensor, right: Tensor, rows: Tensor) -> None:
    """Raise InvalidResult if a row differs from the product in float64."""
    expected = (left[rows].double() @ right.double()).to(product.dtype)
    is_wrong = product[rows] != expected
    wait_for_device(product)
    if is_wrong.any():
        first, column = is_wrong.nonzero()[0].tolist()
        actual = product[rows][first, column].item()
        expected_value = expected[first, column].item()
        raise InvalidResult(
            f"element [{int(rows[first])}, {column}]: {actual}, expected {expected_value}"
        )
