"""Figures of the speedup over a chosen baseline, for every suite that has one."""

from functools import partial
from typing import Any

import pandas as pd

from analysis.repetitions import FEWEST_RUNS, WITHIN
from analysis.report.chart import (
    BYTES,
    DOTS,
    LINES,
    LOG,
    MOST_SERIES,
    NAMES,
    Axis,
    Chart,
    Charts,
    points_of,
)
from analysis.speedup import ACROSS, Baseline, compared, inner_columns
from benchkit.record.naming import named

ENDS = ("low", "high")
SIZE = "data_size"


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return one figure per title that measured more than the baseline."""
    return {
        f"{title}_speedup": speedup(title, chosen, rows)
        for title, chosen, rows in compared(table, baseline)
    }


def speedup(title: str, baseline: Baseline, rows: pd.DataFrame) -> Chart:
    """Show the speedup of every point, over its size or else beside its name."""
    outer, inner = list(baseline.values), inner_columns(rows, baseline)
    lines = [*outer, *(name for name in inner if name != SIZE)]
    over_size = SIZE in inner and bool(rows[SIZE].notna().all())
    over_size = over_size and rows.groupby(lines, dropna=False).ngroups <= MOST_SERIES
    of_series = lines if over_size else outer
    return Chart(
        mark=LINES if over_size else DOTS,
        title=head_of(title, baseline, rows),
        note=note_on(rows),
        x=Axis(SIZE, LOG, BYTES) if over_size else Axis(", ".join(inner), NAMES),
        y=Axis(f"time of {baseline} / time", LOG),
        points=points_of(
            rows.assign(**ends_of(rows)),
            rows[SIZE] * 2**20 if over_size else joined(rows, inner, ", "),
            ("speedup", *ENDS),
            f"{', '.join(of_series)} " + joined(rows, of_series, ", "),
        ),
        reference=1,
    )


def head_of(title: str, baseline: Baseline, rows: pd.DataFrame) -> str:
    """Return "all_reduce on gloo: speedup over world_size=2"; of several backends none is named."""
    backends = rows["backend"].dropna().unique()
    of = f" on {backends[0]}" if len(backends) == 1 and "backend" not in baseline.values else ""
    return f"{title}{of}: speedup over {baseline}"


def ends_of(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return ENDS: those of each speedup's interval or, without one, of its range over runs."""
    ranges = ("speedup_range_low", "speedup_range_high")
    pairs = zip(("speedup_low", "speedup_high"), ranges, strict=True)
    return dict(zip(ENDS, (rows[end].fillna(rows[other]) for end, other in pairs), strict=True))


def note_on(rows: pd.DataFrame) -> str:
    """Say what the bars of these rows are."""
    basis, known = rows["speedup_basis"], rows["speedup_low"].notna()
    within, across = basis == WITHIN, basis.str.startswith(ACROSS)
    runs = ~within & ~across
    of_medians = (
        f"what both medians' 95 % intervals allow,\nwhich are {WITHIN}: "
        "no spread between runs is in them"
    )
    notes = {
        of_medians: within & known,
        f"range of the ratios of fewer than {FEWEST_RUNS} runs": runs & ~known,
        "95 % interval between runs": runs & known,
        "what both 95 % intervals between runs allow": across & known,
    }
    applying = [note for note, applies in notes.items() if applies.any()]
    lines = ["bars: " + ";\n".join(applying)] if applying else []
    if ((within | across) & ~known).any():
        lines.append("no bar: the spread is not known")
    return "\n".join(lines)


def joined(rows: pd.DataFrame, columns: list[str], separator: str) -> pd.Series:
    """Join the values of some columns into one label per row."""

    def text(column: str, value: Any) -> str:
        return named(column, value) if pd.notna(value) else "-"

    texts = [rows[column].map(partial(text, column)) for column in columns]
    labels = [separator.join(cells) for cells in zip(*texts, strict=True)]
    return pd.Series(labels or "", index=rows.index)
