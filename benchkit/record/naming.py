"""Formats sizes, settings and labels as text, for agents and for reports."""

from collections.abc import Mapping
from typing import Any

from benchkit.statistics.estimators import LATENCY


def readable(num_bytes: float) -> str:
    """Formats a size in bytes with a suitable unit: "4 B", "1 KiB", "16 MiB"."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= factor:
            return f"{num_bytes / factor:.4g} {unit}"
    return f"{num_bytes:.4g} B"


def named(column: str, value: Any) -> str:
    """Formats a setting or a label; a data_size is in MiB."""
    if column == "data_size" and isinstance(value, int | float):
        return readable(value * 2**20)
    return f"{value:g}" if isinstance(value, float) else str(value)


def depends_on_time(labels: Mapping[str, Any]) -> bool:
    """Tells whether a suite has a case with these labels only where the clock allows it.

    That is the latency of a short call, and a round of pairs that fits in the time.
    """
    return labels.get("timing") == LATENCY or "round" in labels
