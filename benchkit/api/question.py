"""A suite's question: which variants of which problem are compared, by which metric.

Each key and label of a suite belongs to the problem, is a factor of a comparison, or distinguishes
replicates; the problem is the default. Times are compared only where the problem is equal. Reports,
figures and the first lines of every output follow this description; nothing is inferred from the
settings that vary.
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
"""Names of values in any suite."""


@dataclass(frozen=True)
class Metric:
    """A number by which cases are judged.

    Attributes:
        head: header of its column.
        unit: unit in a header and behind a number.
        scale: factor from the table's unit to `unit`.
        scale_end: end of the scale for which the answer gives it: LEAST, or "" for the largest.
        row_filter: column values of the rows that have it; empty for all rows.
        peak_column: column of the peak rate in TFLOP/s of a share; "" if the header names it.
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
    """A comparison: the values of its factors distinguish the variants of a problem.

    Attributes:
        factors: columns of the factors.
        baseline: the variant that others are compared with. LEAST is the smallest number in each
            problem, FIRST the value measured first.
        focus: the variant that the answer is about; empty for the best of each problem.
        bounds: variants that are bounds and never the fastest.
        is_curve: whether the first factor is a scale, such as a slowdown: its variants have a
            speedup, but none is the fastest.
    """

    factors: tuple[str, ...]
    baseline: Cells
    focus: Cells = field(default_factory=dict)
    bounds: Cells = field(default_factory=dict)
    is_curve: bool = False


@dataclass(frozen=True)
class Question:
    """A suite's question, in columns of its table.

    Attributes:
        problem: settings and labels that are equal where times are compared, in the order of a
            table.
        comparisons: the first comparison with two variants of one problem is used. The factors of
            the others become columns of the problem.
        metrics: variants are compared by the first; the others are shown if there is room.
        scaling_columns: columns of the problem along which times grow; answers are for their
            largest values.
        panel_column: column of the problem whose values are side by side if nothing is compared.
        replicates: settings in which the replicates of a variant may differ.
        words: names of a column's values, or of one of them: {"ranks": "{} devices",
            "async_op=False": "blocking"}.
        terms: meanings of words in a table.
        next_steps: suggested overrides, by the key that they vary. The first whose key was not
            varied is shown.
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
        """Format a value of a column: "4 ranks", "blocking", or "align 32"."""
        text = format_label(column, value)
        words = {**WORDS, **self.words}
        for key in (f"{column}={text}", column):
            if key in words:
                return words[key].format(text)
        if text in ("True", "False"):
            return column if text == "True" else f"no {column}"
        return text if isinstance(value, str) or column == "data_size" else f"{column} {text}"
