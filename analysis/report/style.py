"""One look for every plot: readable in print, for colour-blind readers, and in black and white."""

import io
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

from analysis.output import write
from analysis.report.chart import hardware
from benchkit.record.naming import readable

MARKERS = "osD^vP*X"  # They tell series apart in black and white.
DOTS_PER_INCH = 200
FORMATS = ("png", "pdf", "svg")
MANY = 4
LEGEND_INCHES = 3.6
"""The legend of more series than MANY stands beside the panel and is this wide."""
LEGEND_INCHES_OF_LETTER, LEGEND_INCHES_OF_MARK = 0.075, 0.6
TITLE_LETTERS = 8.5
TEXT_LETTERS = 13
"""Letters per inch of titles and of small print."""
MOST_INCHES = 150
"""A wider or higher plot shows nothing and takes minutes to draw."""
SHORT = 10
TICKS = 6
"""A y axis whose ends have a smaller ratio than SHORT has up to TICKS ticks at equal distances."""


def apply() -> None:
    """Set the theme; call it once before plots are drawn."""
    sns.set_theme(context="paper", style="whitegrid", palette="colorblind", font_scale=1.15)
    mpl.rcParams.update({
        "legend.frameon": True,
        "figure.constrained_layout.use": True,
        "pdf.fonttype": 42, "svg.fonttype": "none",  # text stays text
        "text.parse_math": False,  # A label of a suite may contain a $.
        "figure.max_open_warning": 0,  # Each figure is closed when it is saved.
    })  # fmt: skip


def panels(
    count: int, width: float = 4.8, height: float = 3.8, share: bool = True
) -> tuple[Figure, list[Axes]]:
    """Make a figure with `count` panels, at most three in a row and none empty.

    Args:
        share: whether the panels have one y axis.

    Raises:
        ValueError: for a figure larger than MOST_INCHES.
    """
    columns = min(count, 3)
    rows = -(-count // columns)
    figsize = (width * columns, height * rows)
    if max(figsize) > MOST_INCHES:
        size = f"{figsize[0]:.0f} x {figsize[1]:.0f} inches"
        raise ValueError(f"{count} panels on {size}; at most {MOST_INCHES} are drawn")
    figure, grid = plt.subplots(rows, columns, figsize=figsize, squeeze=False, sharey=share)
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def named(column: str, value: object) -> str:
    """Format a setting for a legend: a word stands alone, a number has the name of its column."""
    return f"{column} {value:g}" if isinstance(value, int | float) else str(value)


def look(index: int) -> dict[str, Any]:
    """Return the look of the series of that number, which is the same in every plot."""
    return {**line_look(index), "capsize": 3}


def line_look(index: int) -> dict[str, Any]:
    """Return colour and marker of a series without bars."""
    return {"color": f"C{index % 10}", "marker": MARKERS[index % len(MARKERS)]}


def legend(axes: Axes, beside: bool = False, title: str | None = None) -> None:
    """Draw the legend: inside the panel, or beside it if asked or where entries are many."""
    if beside or len(axes.get_legend_handles_labels()[0]) > MANY:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), title=title)
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_size_inches(figure.get_figwidth() + LEGEND_INCHES, figure.get_figheight())
    else:
        axes.legend(title=title)


def shared_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Draw one legend for all panels, beside them."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    letters = max((len(line) for label in entries for line in label.split("\n")), default=0)
    inches = LEGEND_INCHES_OF_LETTER * letters + LEGEND_INCHES_OF_MARK
    figure.set_size_inches(figure.get_figwidth() + inches, figure.get_figheight())
    figure.legend(list(entries.values()), list(entries), loc="outside right center")


def caption(figure: Figure, title: str, text: str, rows: pd.DataFrame | None = None) -> None:
    """Draw a title above the plot and, below it in small print, how to read it.

    Both are wrapped to the figure's width, so the figure must have its final size.

    Args:
        text: the small print.
        rows: what was drawn; their hardware is added to the small print.
    """
    lines = [*text.split("\n"), hardware(rows) if rows is not None else ""]
    width = figure.get_figwidth()
    small = "\n".join(textwrap.fill(line, int(TEXT_LETTERS * width)) for line in lines if line)
    figure.suptitle(textwrap.fill(title, int(TITLE_LETTERS * width)), fontweight="bold")
    figure.supxlabel(small, fontsize="small", color="dimgray")


def log_sizes(axes: Axes, sizes: Sequence[float]) -> None:
    """Make the x axis logarithmic; where the measured sizes are few, they are its labels."""
    axes.set_xscale("log")
    if len(sizes) <= 8:
        axes.set_xticks(list(sizes))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def log_bytes(axes: Axes, unit_bytes: float) -> None:
    """Make the x axis, in some unit, logarithmic with labels at powers of two: "64 KiB"."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value * unit_bytes)))
    axes.tick_params(axis="x", rotation=30)


def log_values(axes: Axes, shown: Callable[[float], str] = "{:g}".format, along: str = "y") -> None:
    """Make the axis of values logarithmic, with plain numbers as labels.

    Where the range is small, there are labels between the decades too; `shown` formats them. Call
    it when everything is drawn, because the ticks depend on the limits.
    """
    axes.set(**{f"{along}scale": "log"})
    axis = axes.xaxis if along == "x" else axes.yaxis
    low, high = sorted(axis.get_view_interval())
    if high / low < SHORT:
        axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3))
    elif high / low < 100:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
    axis.set_minor_formatter(NullFormatter())


def interval_bars(rows: pd.DataFrame, value: str, low: str, high: str) -> list[list[float]] | None:
    """Return the lengths below and above of matplotlib's error bars.

    Without an interval the lengths are NaN, which draws nothing. Where no row has an interval, the
    result is None, so that the legend shows no bar either.
    """
    below = (rows[value] - rows[low]).clip(lower=0)
    above = (rows[high] - rows[value]).clip(lower=0)
    return [below.tolist(), above.tolist()] if (below.notna() & above.notna()).any() else None


def save(figure: Figure, path: Path, formats: Sequence[str] = FORMATS[:1]) -> list[Path]:
    """Write the figure in some of FORMATS, each beside `path`, and close it."""
    paths = [path.with_suffix(f".{each}") for each in formats]
    try:
        with warnings.catch_warnings():  # The font lacks a letter, or the layout is crowded.
            warnings.simplefilter("ignore", UserWarning)
            for each in paths:
                drawn = io.BytesIO()
                figure.savefig(drawn, dpi=DOTS_PER_INCH, format=each.suffix[1:])
                write(each.parent, each.name, drawn.getvalue())
    finally:
        plt.close(figure)
    return paths
