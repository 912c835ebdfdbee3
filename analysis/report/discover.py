"""Finds tables and plots: a module in a suite's folder that defines `write` or `draw`.

`write(table) -> dict[file name, text]` and `draw(table, baseline) -> dict[file name, what draws it]` are empty where
the table has no data for them. A suite of your own (BENCHKIT_SUITES) has them in modules `table` and `plot` beside it.
"""

import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType

import pandas as pd
from matplotlib.figure import Figure

from analysis.report.attempts import Attempt, directly
from analysis.speedup import Baseline

Drawings = dict[str, Callable[[], Figure]]
"""By file name; drawn one by one, since one may fail and the others be drawn."""
OF_EVERY_SUITE = ("analysis.report.size_plots", "analysis.report.speedup_plot")
EXTRA_SUITES = "BENCHKIT_SUITES"


def write_all(table: pd.DataFrame, attempt: Attempt = directly) -> Iterator[tuple[str, str]]:
    """Every table of a suite's own that there is data for; each module's are an attempt of their own."""
    for name, module in modules_with("write"):
        texts: dict[str, str] | None = attempt(f"tables of {name}", partial(module.write, table))
        yield from (texts or {}).items()


def draw_all(
    table: pd.DataFrame, baseline: Baseline | None, attempt: Attempt = directly
) -> Iterator[tuple[str, Figure]]:
    """Every plot that the table has data for; each is an attempt of its own."""
    for name, module in modules_with("draw"):
        drawings: Drawings | None = attempt(
            f"plots of {name}", partial(module.draw, table, baseline)
        )
        for file_name, draw in (drawings or {}).items():
            figure = attempt(f"plot {file_name}", draw)
            if figure is not None:
                yield file_name, figure


def modules_with(function: str) -> Iterator[tuple[str, ModuleType]]:
    """The modules that define a function of this name, each with a name for messages."""
    for name in [*OF_EVERY_SUITE, *own_modules(), *foreign_modules()]:
        module = importlib.import_module(name)
        if hasattr(module, function):
            yield name.removeprefix("analysis.").removeprefix("suites."), module


def own_modules() -> list[str]:
    """The modules in the folders of analysis.suites."""
    folders = importlib.import_module("analysis.suites").__path__
    found = pkgutil.walk_packages(folders, "analysis.suites.")
    return [each.name for each in found if not each.ispkg]


def foreign_modules() -> list[str]:
    """The modules `table` and `plot` of suites outside benchkit, as far as these are packages that have them."""
    suites = [
        name.removesuffix(".suite") for name in os.environ.get(EXTRA_SUITES, "").split(",") if name
    ]
    found = []
    for name in (f"{suite}.{part}" for suite in suites for part in ("table", "plot")):
        try:
            found += [name] if importlib.util.find_spec(name) else []
        except ModuleNotFoundError:  # no package, or none that is installed here
            continue
    return found
