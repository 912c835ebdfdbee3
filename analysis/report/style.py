"""One style for all figures: readable in print, for colour-blind readers, and in black and white.

Every figure is WIDTH wide, so that letters have one size everywhere; more panels make it higher.
`lay_out` puts title and legend above the panels and the caption below them.
"""

import io
import textwrap
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from matplotlib.transforms import Bbox

from analysis.shared.output import write

COLOURS = (
    "#0173b2", "#c27c00", "#029e73", "#d55e00", "#b8609f", "#a9743f", "#d0719d", "#7a7a7a",
    "#9b9415", "#2b93c9",
)  # fmt: skip
"""Colours of series, as on the page. Colour-blind readers can distinguish the first ones."""
MARKERS = "osD^vP*X"  # Distinguishes series in black and white.
DOTS_PER_INCH = 200
FORMATS = ("png", "pdf", "svg")
WIDTH, PANEL_HEIGHT, LEAST_WIDTH = 8.0, 3.0, 2.2
MOST_COLUMNS = 3
GAP = 0.08
LETTER, TITLE_LETTER, SMALL_LETTER = 0.08, 0.1, 0.058
"""Greatest mean width of a letter in a line, in inches."""
INCHES_OF_MARK = 0.6
"""Width of the mark beside a name in a legend."""
MOST_INCHES = 150
"""Greatest height of a figure: higher ones take minutes to draw."""
SHORT = 10
TICKS = 6
"""A logarithmic axis whose limits have a ratio below SHORT has up to TICKS equidistant ticks."""
REACH = (-0.6, -0.4, 0.0, 0.2)
"""Estimate of the inches by which labels and title exceed a panel: left, below, right, above.
The ticks depend on the size of the panel."""
MOST_TICKS = 10
"""Most ticks on a logarithmic axis of settings: labels of more would touch."""
LABELS_APART = 3
"""Distance between the labels of two ticks, in pixels."""


def apply() -> None:
    """Set the theme; call once before drawing figures."""
    sns.set_theme(context="paper", style="whitegrid")
    mpl.rcParams.update({
        "font.size": 9, "axes.labelsize": 9, "axes.titlesize": 9, "legend.fontsize": 9,
        "xtick.labelsize": 8.5, "ytick.labelsize": 8.5, "figure.titlesize": 11,
        "figure.labelsize": 8,
        "pdf.fonttype": 42, "svg.fonttype": "none",  # text stays text
        "axes.titley": 1.0,  # else each drawing looks for ticks above a panel
        "text.parse_math": False,  # A label of a suite may contain a $.
        "figure.max_open_warning": 0,  # Each figure is closed when it is saved.
    })  # fmt: skip


def panels(
    count: int,
    least_width: float = LEAST_WIDTH,
    height: float = PANEL_HEIGHT,
    share: bool = True,
    width: float = WIDTH,
) -> tuple[Figure, list[Axes]]:
    """Make a figure with `count` panels, none empty.

    Args:
        least_width: least width of a panel in inches; limits the number of columns.
        share: whether the panels share their y axis.
        width: width of all panels together in inches.

    Raises:
        ValueError: the figure would be higher than MOST_INCHES.
    """
    columns = columns_of(count, least_width)
    rows = -(-count // columns)
    if height * rows > MOST_INCHES:
        size = f"{height * rows:.0f} inches"
        raise ValueError(f"{count} panels are {size} high; at most {MOST_INCHES} are drawn")
    figsize = (width, height * rows)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=figsize,
        squeeze=False,
        sharey=share,
        layout="constrained",
        dpi=DOTS_PER_INCH,
    )
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def columns_of(count: int, least_width: float) -> int:
    """Return the number of columns of panels that leaves no row nearly empty."""
    columns = max(1, min(count, MOST_COLUMNS, int(WIDTH / least_width)))
    return -(-count // -(-count // columns))


def series_style(number: int) -> dict[str, Any]:
    """Return colour and marker of the series with this number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def wrap_text(text: str, inches: float, letter: float = LETTER) -> str:
    """Wrap the lines of a text to a width in inches."""
    width = max(8, int(inches / letter))
    return "\n".join(textwrap.fill(line, width) for line in text.split("\n") if line)


def lay_out(figure: Figure, title: str, note: str, named: Sequence[Axes] = ()) -> None:
    """Put title and legend above the panels and the caption below; the figure grows accordingly.

    Args:
        note: the caption. The number of names that an axis had to hide is appended.
        named: panels with series for the legend.
    """
    engine: Any = figure.get_layout_engine()
    reach = {axes: [inches * figure.dpi for inches in REACH] for axes in figure.axes}
    for axes in figure.axes:
        axes.get_tightbbox = partial(box_of, axes, reach)  # type: ignore[method-assign]
    engine.execute(figure)
    reach |= {axes: reach_of(axes) for axes in figure.axes}
    engine.execute(figure)
    counts = [thin_labels(axis) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    num_shown, num_names = (sum(count) for count in zip(*counts, strict=True))
    note += f"; {num_shown} of {num_names} names" if num_shown < num_names else ""
    room = WIDTH - 2 * GAP
    width, panels_inches = figure.get_size_inches()
    at = {"x": GAP / WIDTH, "ha": "left", "va": "top"}
    head = figure.suptitle(
        wrap_text(title, room, TITLE_LETTER), y=1.0, fontweight="bold", linespacing=1.1, **at
    )
    foot = figure.supxlabel(
        wrap_text(note, room, SMALL_LETTER), y=0.0, color="dimgray", linespacing=1.3, **at
    )
    legend = legend_of(figure, named)

    def inches(part: Any) -> float:
        return float(part.get_window_extent().height) / figure.dpi + GAP if part else 0.0

    above, key, below = GAP + inches(head), inches(legend), inches(foot) + GAP
    height = panels_inches + above + key + below
    figure.set_size_inches(WIDTH, height)
    head.set_y(1 - GAP / height)
    foot.set_y((below - GAP) / height)
    if legend:
        legend.set_bbox_to_anchor((GAP / WIDTH, 1 - above / height))
    engine.set(rect=(0, below / height, width / WIDTH, panels_inches / height))
    engine.execute(figure)
    figure.set_layout_engine(None)  # else each drawing would lay out again


def box_of(axes: Axes, reach: Mapping[Axes, Sequence[float]], *how: Any, **more: Any) -> Bbox:
    """Return the box of a panel with labels and title, for the layout engine."""
    extents = axes.get_window_extent().extents
    return Bbox.from_extents(*(end + more for end, more in zip(extents, reach[axes], strict=True)))


def reach_of(axes: Axes) -> list[float]:
    """Measure by how much labels and title exceed a panel; fix its ticks."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(list(axis.get_majorticklocs())))
    inner_box = axes.get_window_extent()
    boxes = [axis.get_tightbbox(for_layout_only=True) for axis in (axes.xaxis, axes.yaxis)]
    title = [axes.title.get_window_extent()] if axes.get_title() else []
    outer_box = Bbox.union([inner_box, *filter(None, boxes), *title])
    return [end - inner for end, inner in zip(outer_box.extents, inner_box.extents, strict=True)]


def legend_of(figure: Figure, panels: Sequence[Axes]) -> Legend | None:
    """Add a legend of the series of all panels, in as many columns as fit; None without series."""
    entries: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(wrap_text(label, WIDTH - INCHES_OF_MARK - 2 * GAP), handle)
    if not entries:
        return None
    letters = max(len(line) for label in entries for line in label.split("\n"))
    columns = max(1, int((WIDTH - 2 * GAP) / (LETTER * letters + INCHES_OF_MARK)))
    rows = -(-len(entries) // columns)
    return figure.legend(
        list(entries.values()),
        list(entries),
        loc="upper left",
        ncols=-(-len(entries) // rows),
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.5,
    )


def thin_labels(axis: Axis) -> tuple[int, int]:
    """Hide tick labels that touch a previous one; keep the ticks.

    Returns:
        The number of visible names, and of all names; zeros for numbers, where nothing is lost.
    """
    num_shown = num_labels = 0
    low, high = sorted(axis.get_view_interval())
    previous: Bbox | None = None
    for tick in axis.get_major_ticks():
        label = tick.label1
        if not (low <= tick.get_loc() <= high and label.get_visible() and label.get_text()):
            continue
        box = label.get_window_extent().padded(LABELS_APART / 2)
        num_labels += 1
        if previous is not None and previous.overlaps(box):
            label.set_visible(False)
        else:
            previous = box
            num_shown += 1
    return (
        (num_shown, num_labels)
        if isinstance(axis.get_major_formatter(), FixedFormatter)
        else (0, 0)
    )


def name_ticks(axis: Axis, names: Sequence[str], first: float = 0.0) -> None:
    """Write names at unit distance; `thin_labels` counts these."""
    axis.set_ticks([first + place for place in range(len(names))])
    axis.set_major_formatter(FixedFormatter(names))


def log_ticks(axis: Axis, places: Sequence[float], shown: Callable[[float], str]) -> None:
    """Put ticks on a logarithmic axis; of too many positions at every second, third and so on."""
    axis.set_ticks(list(places[:: -(-len(places) // MOST_TICKS)]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
    axis.set_minor_locator(NullLocator())


def log_values(axes: Axes, shown: Callable[[float], str] = "{:g}".format, along: str = "y") -> None:
    """Make the axis of values logarithmic, with plain numbers as labels.

    A small range has labels between decades, too; `shown` formats them. Call it after drawing,
    because ticks depend on the limits.
    """
    axes.set(**{f"{along}scale": "log"})
    axis = axes.xaxis if along == "x" else axes.yaxis
    low, high = sorted(axis.get_view_interval())
    axis.set_minor_locator(NullLocator())
    if high / low < SHORT:
        axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3))
    elif high / low < 100:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))
    axis.set_minor_formatter(NullFormatter())


def interval_bars(rows: pd.DataFrame, value: str, low: str, high: str) -> list[list[float]] | None:
    """Return the lengths of matplotlib's error bars: [below, above][row].

    A row without an interval has NaN, which draws nothing. If no row has an interval, the result is
    None, so that the legend shows no bar either.
    """
    middle, *bounds = (rows[name].to_numpy(float, na_value=np.nan) for name in (value, low, high))
    bars = [np.maximum(middle - bounds[0], 0), np.maximum(bounds[1] - middle, 0)]
    return [bar.tolist() for bar in bars] if not np.isnan(bars[0] + bars[1]).all() else None


def save(figure: Figure, path: Path, formats: Sequence[str] = FORMATS[:1]) -> list[Path]:
    """Write a figure in some of FORMATS, beside `path`, and close it."""
    paths = [path.with_suffix(f".{file}") for file in formats]
    try:
        with warnings.catch_warnings():  # The font lacks a letter, or the layout is crowded.
            warnings.simplefilter("ignore", UserWarning)
            for file in paths:
                buffer = io.BytesIO()
                kind = file.suffix[1:]
                options: dict[str, Any] = (
                    {"pil_kwargs": {"compress_level": 1}} if kind == "png" else {}
                )
                figure.savefig(buffer, dpi=DOTS_PER_INCH, format=kind, **options)
                write(file.parent, file.name, buffer.getvalue())
    finally:
        plt.close(figure)
    return paths
