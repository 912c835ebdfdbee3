"""One file per kind of plot: `draw(table, baseline) -> dict[file name, what draws it]`, empty where it has no data."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from analysis.report.attempts import Attempt, directly
from analysis.speedup import Baseline

Drawings = dict[str, Callable[[], Figure]]
"""By file name; drawn one by one, since one may fail and the others be drawn."""


def draw_all(
    table: pd.DataFrame, baseline: Baseline | None, attempt: Attempt = directly
) -> Iterator[tuple[str, Figure]]:
    """Every plot that the table has data for; each is an attempt of its own."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        drawings: Drawings | None = attempt(f"plots of {found.name}", partial(module.draw, table, baseline))
        for name, draw in (drawings or {}).items():
            figure = attempt(f"plot {name}", draw)
            if figure is not None:
                yield name, figure
