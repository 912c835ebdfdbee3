"""Counts the memory of one rank of the tensor-parallel suites; imports no torch.

A shape is (m, n, k) of the product of A [m, k] and B [k, n].
"""

from benchkit.api.item_bytes import product_bytes

Shape = tuple[int, int, int]


def columnwise_bytes(
    shape: Shape, dtype: str, world_size: int, needs_whole: bool
) -> tuple[int, int]:
    """Returns the bytes of the operands and of scratch memory, with the rows of A sharded.

    Args:
        shape: of the product.
        dtype: of the factors.
        world_size: number of ranks.
        needs_whole: whether a case multiplies whole matrices.
    """
    m, n, k = shape
    most = -(-m // world_size)
    factors = most * k + k * n + (m * k if needs_whole else 0)
    gathered_a, gathered_c = (world_size + 3) * most * k, (world_size + 1) * most * n
    scratch = max(product_bytes(dtype, gathered_a, 0), product_bytes(dtype, 0, gathered_c))
    return product_bytes(dtype, factors, m * n), scratch


def rowwise_bytes(shape: Shape, dtype: str, world_size: int, needs_whole: bool) -> tuple[int, int]:
    """Returns the same with the columns of A and the rows of B sharded."""
    m, n, k = shape
    most, width = -(-m // world_size), -(-k // world_size)
    factors, products = world_size * most * width + width * n, most * n
    if needs_whole:
        factors, products = factors + m * k + k * n, products + m * n
    scratch = product_bytes(dtype, 0, (world_size + 4) * most * n)
    return product_bytes(dtype, factors, products), scratch


def checking_bytes(shape: Shape) -> int:
    """Returns the bytes of all matrices in float64, in which results are checked."""
    m, n, k = shape
    return 8 * (m * k + k * n + m * n)


def drawn_bytes(shape: Shape) -> int:
    """Returns the bytes of the host memory in which factors are drawn.

    Per element these are 4 to time and 1 to check.
    """
    m, n, k = shape
    return 5 * (m * k + k * n)
