"""Sizes of dtypes and of messages; imports no torch."""

import re

from benchkit.errors import ConfigError

FLOAT8, FLOAT8_FAST = "float8_e4m3fn", "float8_e4m3fn_fast"
"""The second has sums of about 14 bits instead of 24, as Hopper's published rates assume."""
FLOAT8S = (FLOAT8, FLOAT8_FAST)
FLOAT8_STEP = 16
"""Divisor of all dimensions of float8 factors, but for the rows of the first."""

ITEM_BYTES = {
    FLOAT8: 1, FLOAT8_FAST: 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "int32": 4, "int64": 8,
}  # fmt: skip


def product_bytes(dtype: str, factors: int, products: int) -> int:
    """Return the bytes of elements of factors and products; products of float8 are bfloat16."""
    of_product = "bfloat16" if dtype in FLOAT8S else dtype
    return factors * ITEM_BYTES[dtype] + products * ITEM_BYTES[of_product]


def check_float8(dtype: str, device: str, name: str, *lengths: int) -> None:
    """Raise ConfigError if float8 of these lengths cannot be multiplied on this device."""
    if dtype == FLOAT8_FAST and device != "cuda":
        raise ConfigError(f"dtype={dtype}: allowed is {FLOAT8} with hardware.device={device}")
    for length in lengths:
        if dtype in FLOAT8S and length % FLOAT8_STEP:
            allowed = f"allowed with dtype={dtype} are multiples of {FLOAT8_STEP}"
            raise ConfigError(f"{name}={length}: {allowed}")


UNITS = {
    "": 1.0, "b": 2.0**-20,
    "k": 2.0**-10, "kib": 2.0**-10, "kb": 1e3 / 2**20,
    "m": 1.0, "mib": 1.0, "mb": 1e6 / 2**20,
    "g": 2.0**10, "gib": 2.0**10, "gb": 1e9 / 2**20,
}  # fmt: skip
"""MiB per unit. K, M and G are binary as in nccl-tests; KB, MB and GB are decimal."""
SIZE = re.compile(r"([0-9.eE+-]+?)\s*([kmg]?i?b|[kmg])?", re.IGNORECASE)
RANGE = re.compile(r"(\d+[kmg]?i?b?)-(\d+[kmg]?i?b?)", re.IGNORECASE)


def mebibytes(size: float | str, key: str = "data_size") -> float:
    """Convert a size to MiB: a number of MiB, or "4B", "1KiB", "1K", "16 MiB", "10MB".

    Raises ConfigError, which names `key`, unless the size is finite and > 0.
    """
    match = SIZE.fullmatch(str(size))
    try:
        value = float(match[1]) * UNITS[(match[2] or "").lower()] if match else 0.0
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value < float("inf"):
        allowed = "MiB > 0, or a size with its unit: 4B, 1KiB, 16MiB, 2GiB"
        raise ConfigError(f"{key}={size}: allowed are {allowed}, and 8-1G for all powers between")
    return value


def doubled_sizes(sizes: str) -> list[str] | None:
    """Return the sizes of a range such as "8-1G", by factors of 2 (nccl-tests' -f 2).

    A number without a unit is bytes. None if `sizes` is not a range.
    """
    match = RANGE.fullmatch(sizes)
    if match is None:
        return None
    least, most = (mebibytes(bound + "B" * bound.isdecimal()) for bound in match.groups())
    steps = []
    while least <= most:
        steps.append(f"{least * 2**20:g}B" if least < 2**-10 else f"{least * 2**10:g}KiB")
        least *= 2
    return steps
