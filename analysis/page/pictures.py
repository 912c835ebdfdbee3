"""Plots of suites that have no interactive figures, as pictures within the page."""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from analysis.discover import Drawings, modules_with, or_left_out
from analysis.report import style
from analysis.variants import Baseline


@dataclass(frozen=True)
class Picture:
    """A plot.

    Attributes:
        title: above the plot.
        data: the address of an image that holds all of its data.
    """

    title: str
    data: str


def pictures_of(table: pd.DataFrame, baseline: Baseline | None) -> Iterator[Picture]:
    """Yield the plots of the modules in whose package no module shows interactive figures."""
    if not (table["status"] == "ok").any():
        return
    interactive = {module.__package__ for _, module in modules_with("show")}
    for name, module in modules_with("draw"):
        if module.__package__ in interactive:
            continue
        style.apply()
        make = partial(module.draw, table, baseline)
        drawings: Drawings | None = or_left_out(f"plots of {name}", make)
        for file_name, draw in (drawings or {}).items():
            picture = or_left_out(f"plot {file_name}", partial(picture_of, file_name, draw()))
            if picture:
                yield picture


def picture_of(file_name: str, figure: Figure) -> Picture:
    """Return a plot as vectors; a browser shows it as an image, which runs nothing."""
    content = io.BytesIO()
    try:
        figure.savefig(content, format="svg", metadata={"Date": None})
    finally:
        plt.close(figure)
    title = figure.get_suptitle() or file_name.rpartition(".")[0]
    data = base64.b64encode(content.getvalue()).decode()
    return Picture(title.replace("\n", " "), f"data:image/svg+xml;base64,{data}")
