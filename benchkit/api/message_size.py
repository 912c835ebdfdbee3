"""Parses message sizes; imports no torch."""

import re

from benchkit.errors import ConfigError

UNITS = {"B": 2.0**-20, "KiB": 2.0**-10, "MiB": 1.0, "GiB": 2.0**10}


def mebibytes(size: float | str, key: str = "data_size") -> float:
    """Converts a size to MiB.

    Args:
        size: a number of MiB, or a number with its unit: "4B", "1KiB", "16 MiB" or "2GiB".
        key: name of the configuration key, for the message.

    Raises:
        ConfigError: for anything that is not a finite size > 0.
    """
    found = re.fullmatch(r"([0-9.eE+-]+?)\s*(B|KiB|MiB|GiB)?", str(size))
    try:
        value = float(found[1]) * UNITS[found[2] or "MiB"] if found else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigError(
            f"{key}={size}: allowed are MiB > 0, or a size with its unit: 4B, 1KiB, 16MiB, 2GiB"
        )
    return value
