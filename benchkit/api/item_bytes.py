"""Bytes of the elements of each dtype; imports no torch."""

from benchkit.api.float8 import FLOAT8

ITEM_BYTES = {FLOAT8: 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def product_bytes(dtype: str, factors: int, products: int) -> int:
    """Returns the bytes of so many elements of factors and of products.

    Products of float8 are bfloat16.
    """
    of_product = "bfloat16" if dtype == FLOAT8 else dtype
    return factors * ITEM_BYTES[dtype] + products * ITEM_BYTES[of_product]
