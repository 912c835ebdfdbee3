"""One file per kind of plot with `draw(table, baseline) -> dict[file name, Figure]`, empty where it has no data."""

import importlib
import pkgutil
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from analysis.speedup import Baseline


def draw_all(table: pd.DataFrame, baseline: Baseline | None) -> Iterator[tuple[str, Figure]]:
    """Every plot that the table has data for."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        yield from module.draw(table, baseline).items()
