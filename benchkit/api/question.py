"""What a suite asks: which variants of which problem are compared, by which metric.

Each key and label of a suite belongs to the problem, is a factor of a comparison, or tells
replicates apart; the problem is the default. Times are compared only where the problem is equal.
Reports, figures and the first lines of every output follow this description, and guess nothing
from what happens to vary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchkit.record.naming import format_label

LEAST, FIRST = "least", "first"
Cells = Mapping[str, str | int | float | bool]  # values by column
WORDS = {
    "world_size": "{} ranks",
    "world_size=1": "1 rank",
    "backend_env=": "no backend.env",
    "variables=": "no variables",
}
"""What values are called in any suite."""


@dataclass(frozen=True)
class Metric:
    """A number by which cases are judged.

    Attributes:
        head: text above its numbers.
        unit: unit in a head and behind a number.
        scale: factor from the table's unit to `unit`.
        scale_end: end of the scale at which the answer reads it: LEAST, or "" for the largest.
        row_filter: values of the rows that have it; empty for all.
        peak_column: column of the TFLOP/s that a share is of; "" where the head says it.
        is_higher_better: whether more is better.
    """

    column: str
    head: str
    unit: str
    scale: float = 1.0
    scale_end: str = ""
    row_filter: Cells = field(default_factory=dict)
    peak_column: str = ""
    is_higher_better: bool = True


TIME = Metric("median_s", "", "ms", 1e3, is_higher_better=False)
BUSBW = Metric("busbw_gb_per_s", "busbw", "GB/s")
TFLOP_PER_S = Metric("useful_tflop_per_s", "", "TFLOP/s")


@dataclass(frozen=True)
class Comparison:
    """What is compared: the values of its factors tell the variants of a problem apart.

    Attributes:
        factors: columns.
        baseline: the variant that others are compared with. LEAST stands for the least number in
            each problem, FIRST for the value measured first.
        focus: the variant that the answer is about; empty for the best of each problem.
        bounds: variants that show what can be reached; none of them wins.
        is_curve: whether the first factor is a scale, such as a slowdown: its variants have a
            speedup, and none of them wins.
    """

    factors: tuple[str, ...]
    baseline: Cells
    focus: Cells = field(default_factory=dict)
    bounds: Cells = field(default_factory=dict)
    is_curve: bool = False


@dataclass(frozen=True)
class Question:
    """What a suite asks, in columns of its table.

    Attributes:
        problem: settings and labels that are equal where times are compared, in the order of a
            table.
        comparisons: the first with two variants of an equal problem is made. Factors of the others
            then belong to the problem.
        metrics: variants are compared by the first; the others stand beside it where there is room.
        scaling_columns: columns of the problem along which times grow; answers are for their
            largest values.
        panel_column: the column of the problem whose values stand side by side where nothing is
            compared.
        replicates: settings in which the replicates of a variant may differ.
        words: what a column's values are called, or one of them: {"ranks": "{} devices",
            "async_op=False": "blocking"}.
        terms: what words of a table mean.
        next_steps: what one may ask next, as it is typed, by the key that this varies. The first
            whose key was not varied is shown.
    """

    problem: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    metrics: tuple[Metric, ...] = (TIME,)
    scaling_columns: tuple[str, ...] = ()
    panel_column: str = ""
    replicates: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    next_steps: Mapping[str, str] = field(default_factory=dict)

    def format_value(self, column: str, value: Any) -> str:
        """Return what a value is called: "4 ranks", "blocking", or "align 32"."""
        text = format_label(column, value)
        words = {**WORDS, **self.words}
        for key in (f"{column}={text}", column):
            if key in words:
                return words[key].format(text)
        if text in ("True", "False"):
            return column if text == "True" else f"no {column}"
        return text if isinstance(value, str) or column == "data_size" else f"{column} {text}"
