"""Matrix products that are exact up to one rounding, and their check.

Factors hold -1, 0 and 1, so that every partial sum is a small integer.
"""

import torch

from benchkit.errors import InvalidResult

CHECKED_ROWS = 16
"""Rows of a product that are compared with float64."""


def sum_in_float32() -> None:
    """Makes cuBLAS add parts of a half-precision product in float32, so that it rounds once."""
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


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
