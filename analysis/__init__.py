"""Turns records into tables, plots and sentences.

Reads files only: no torch, no hydra. `analysis.load(FOLDER)` returns the records of a folder as a
table; it is imported when it is first used, because pandas takes a while.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.table.frames import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module 'analysis' has no attribute {name!r}")
    from analysis.table.frames import load

    return load
