"""One look for every plot: readable in print, by colour-blind readers, and in black and white (markers differ)."""

import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from analysis.text import readable

MARKERS = "osD^vP*X"
DOTS_PER_INCH = 200
MANY, LEGEND_INCHES = 4, 3.6
"""More series than this need room of their own, and how much."""
TITLE_LETTERS, TEXT_LETTERS = 8.5, 13
"""Per inch, of titles and of small print."""
MOST_SERIES, MOST_INCHES = 100, 150
"""A plot of more series, or one wider or higher, shows nothing and takes minutes to draw."""
SHORT, TICKS = 10, 6
"""An axis from a value to less than so many times it has ticks at equal distances, at most so many."""


def apply() -> None:
    """Sets the theme; called once before plots are drawn."""
    sns.set_theme(context="paper", style="whitegrid", palette="colorblind", font_scale=1.15)
    mpl.rcParams.update({
        "legend.frameon": True,
        "figure.constrained_layout.use": True,
        "text.parse_math": False,  # a label of a suite may have a $ in it
        "figure.max_open_warning": 0,  # a plot module may have dozens, which are saved and closed one by one
    })  # fmt: skip


def panels(
    count: int, width: float = 4.8, height: float = 3.8, share: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, at most three in a row, none empty."""
    columns = min(count, 3)
    rows = -(-count // columns)
    if max(width * columns, height * rows) > MOST_INCHES:
        size = f"{width * columns:.0f} x {height * rows:.0f} inches"
        raise ValueError(f"{count} panels on {size}; at most {MOST_INCHES} are drawn")
    figure, grid = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, sharey=share
    )
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def named(column: str, value: object) -> str:
    """A setting as a legend has it: words speak for themselves, numbers need their name."""
    return (
        value
        if isinstance(value, str)
        else f"{column} {value:g}"
        if isinstance(value, int | float)
        else str(value)
    )


def require_few_series(count: int) -> None:
    """Raises ValueError for more series than one plot can show."""
    if count > MOST_SERIES:
        raise ValueError(f"{count} series; at most {MOST_SERIES} are drawn in one plot")


def look(index: int) -> dict[str, Any]:
    """Colour and marker of the series of that number, the same in every plot."""
    require_few_series(index + 1)
    return {"color": f"C{index % 10}", "marker": MARKERS[index % len(MARKERS)], "capsize": 3}


def legend(axes: Axes) -> None:
    """The legend: inside where the entries are few, else beside the panel, where it hides no line."""
    if len(axes.get_legend_handles_labels()[0]) > MANY:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_size_inches(figure.get_figwidth() + LEGEND_INCHES, figure.get_figheight())
    else:
        axes.legend()


def shared_legend(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, beside them; inside where it has but one entry."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) < 2:
        axes.legend()
        return
    figure.set_size_inches(figure.get_figwidth() + LEGEND_INCHES / 2, figure.get_figheight())
    figure.legend(handles, labels, loc="outside right center")


def caption(figure: Figure, title: str, text: str, rows: pd.DataFrame | None = None) -> None:
    """A title above and, in small print below, how to read the plot; of `rows` the hardware.

    Both are wrapped to the figure's width, so it must have its final size.
    """
    lines = [*text.split("\n"), hardware(rows) if rows is not None else ""]
    width = figure.get_figwidth()
    small = "\n".join(textwrap.fill(line, int(TEXT_LETTERS * width)) for line in lines if line)
    figure.suptitle(textwrap.fill(title, int(TITLE_LETTERS * width)), fontweight="bold")
    figure.supxlabel(small, fontsize="small", color="dimgray")


def hardware(rows: pd.DataFrame) -> str:
    """ "on AMD EPYC 7B13": the processors or GPUs that the rows were measured on, "" where none is known."""
    names = ", ".join(rows["device_name"].dropna().unique())
    return f"on {names}" if names else ""


def log_sizes(axes: Axes, sizes: Sequence[float]) -> None:
    """A logarithmic x axis of sizes, labelled with the sizes that were measured where they are few."""
    axes.set_xscale("log")
    if len(sizes) <= 8:
        axes.set_xticks(list(sizes))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def log_bytes(axes: Axes, unit_bytes: float) -> None:
    """A logarithmic x axis of sizes in some unit, labelled at powers of two: "64 KiB"."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value * unit_bytes)))
    axes.tick_params(axis="x", rotation=30)


def log_values(axes: Axes, shown: Callable[[float], str] = "{:g}".format) -> None:
    """A logarithmic y axis with plain numbers; where the range is small, between the decades too.

    Called when everything is drawn, since the ticks depend on the limits.
    """
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < SHORT:
        axes.yaxis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3))
    elif high / low < 100:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def readable_time(seconds: float) -> str:
    """A time with a unit that suits it: "100 µs"."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor * (1 - 1e-9):
            return f"{seconds / factor:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"


def interval_bars(rows: pd.DataFrame, value: str, low: str, high: str) -> list[list[float]] | None:
    """Lengths below and above for matplotlib's error bars; NaN where there is no interval, which draws nothing.

    None where no row has one: so a legend shows no bar either.
    """
    below, above = (rows[value] - rows[low]).clip(lower=0), (rows[high] - rows[value]).clip(lower=0)
    return [below.tolist(), above.tolist()] if (below.notna() & above.notna()).any() else None


def save(figure: Figure, path: Path) -> Path:
    """Writes the figure and lets go of it."""
    try:
        with warnings.catch_warnings():  # such as a letter that the font lacks, or a crowded layout
            warnings.simplefilter("ignore", UserWarning)
            figure.savefig(path, dpi=DOTS_PER_INCH)
    finally:
        plt.close(figure)
    return path
