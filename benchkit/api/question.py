"""What a suite asks: of which work, between which sides, by which metric, along which scale.

Each key and label of a suite belongs to the work, to a contest, or is free; the work is the
default. Times are compared only where the work is equal. Reports, figures and the first lines of
every output follow this description, and guess nothing from what happens to vary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchkit.record.naming import named

LEAST, FIRST = "least", "first"
Cells = Mapping[str, str | int | float | bool]  # values by column
WORDS = {"world_size": "{} ranks", "world_size=1": "1 rank"}  # what values are called in any suite


@dataclass(frozen=True)
class Merit:
    """A metric by which cases are judged.

    Attributes:
        head: text above its numbers.
        unit: unit in a head and behind a number.
        scale: factor from the table's unit to `unit`.
        at: end of the scale at which the answer reads it: LEAST, or "" for the largest.
        only: values of the rows that have it; empty for all.
        of: column of the TFLOP/s that a share is of; "" where the head says it.
        rises: whether more is better.
    """

    column: str
    head: str
    unit: str
    scale: float = 1.0
    at: str = ""
    only: Cells = field(default_factory=dict)
    of: str = ""
    rises: bool = True


TIME = Merit("median_s", "", "ms", 1e3, rises=False)
BUSBW = Merit("busbw_gb_per_s", "busbw", "GB/s")
TFLOP_PER_S = Merit("useful_tflop_per_s", "", "TFLOP/s")


@dataclass(frozen=True)
class Contest:
    """What is compared: `by` columns tell the sides apart.

    Attributes:
        over: the side that others are compared with. LEAST stands for the least number in each
            work, FIRST for the value measured first.
        main: the side that the answer is about; empty for the best of each work.
        bounds: sides that show what can be reached; none of them wins.
    """

    by: tuple[str, ...]
    over: Cells
    main: Cells = field(default_factory=dict)
    bounds: Cells = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What a suite asks, in columns of its table.

    Attributes:
        work: settings and labels that are equal where times are compared, in the order of a table.
        contests: the first with two sides in equal work is held. Columns of the others then belong
            to the work.
        merits: the first decides the contest; the others stand beside it where there is room.
        scale: columns of the work along which times grow; answers are for their largest values.
        across: the column of the work whose values stand side by side where nothing is compared.
        free: settings that may differ within a side; its rows count as repetitions.
        words: what a column's values are called, or one of them: {"ranks": "{} devices",
            "timing=latency": "alone"}.
        terms: what words of a table mean.
        further: what one may ask next, as it is typed, by the key that this varies. The first whose
            key was not varied is shown.
    """

    work: tuple[str, ...] = ()
    contests: tuple[Contest, ...] = ()
    merits: tuple[Merit, ...] = (TIME,)
    scale: tuple[str, ...] = ()
    across: str = ""
    free: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    further: Mapping[str, str] = field(default_factory=dict)

    def word(self, column: str, value: Any) -> str:
        """Return what a value is called: "4 ranks", "alone", or "align 32"."""
        text = named(column, value)
        words = {**WORDS, **self.words}
        for key in (f"{column}={text}", column):
            if key in words:
                return words[key].format(text)
        if text in ("True", "False"):
            return column if text == "True" else f"no {column}"
        return text if isinstance(value, str) or column == "data_size" else f"{column} {text}"
