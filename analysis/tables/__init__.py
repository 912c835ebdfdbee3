"""One file per kind of table with `write(table) -> dict[file name, text]`, empty where it has no data."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import partial

import pandas as pd

from analysis.report.attempts import Attempt, directly


def write_all(table: pd.DataFrame, attempt: Attempt = directly) -> Iterator[tuple[str, str]]:
    """Every table of a suite's own that there is data for; each suite's are an attempt of their own."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        texts: dict[str, str] | None = attempt(f"tables of {found.name}", partial(module.write, table))
        yield from (texts or {}).items()
