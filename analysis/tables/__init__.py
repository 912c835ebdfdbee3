"""One file per kind of table with `write(table) -> dict[file name, text]`, empty where it has no data."""

import importlib
import pkgutil
from collections.abc import Iterator

import pandas as pd


def write_all(table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Every table of a suite's own that there is data for."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        yield from module.write(table).items()
