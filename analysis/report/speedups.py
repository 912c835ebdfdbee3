"""Speedups over what a suite's question, or the user, compares with: a table, and figures."""

import pandas as pd

from analysis.discover import suites_with_comparisons
from analysis.repetitions import counted
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
from analysis.variants import APART, Baseline, Ratio, Side, Sides, all_sides
from analysis.table import identity_columns

SIZE = "data_size"
SPEEDUP = ("speedup", "speedup_low", "speedup_high")
MADE = ("baseline", "median_s_baseline", *SPEEDUP, "speedup_basis")


def as_table(table: pd.DataFrame, baseline: Baseline | None) -> pd.DataFrame | None:
    """Return a row per side that is compared, with what it is compared with; None without any.

    The ends of `speedup` are those of an interval or of a range, as `speedup_basis` says.
    """
    found = [rows_of(sides) for _, sides in all_sides(table, baseline) if compared(sides)]
    if not found:
        return None
    rows, columns = pd.concat(found), identity_columns(table)
    return rows[[*columns, *MADE, "median_s", "run"]]


def compared(sides: Sides) -> list[tuple[Side, Ratio]]:
    return [(side, side.ratio) for side in sides.sides if side.ratio]


def rows_of(sides: Sides) -> pd.DataFrame:
    """Return the rows of the sides that are compared, with the columns MADE."""
    rows = []
    for side, ratio in compared(sides):
        kind = ", 95 % interval" if ratio.is_interval else ", range"
        basis = ratio.basis + (kind if ratio.basis != APART else "")
        ends = (ratio.value, ratio.low, ratio.high)
        made = (ratio.base.name, ratio.base.row["median_s"], *ends, basis)
        rows.append({**side.row, **dict(zip(MADE, made, strict=True))})
    return pd.DataFrame(rows)


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return one figure per suite that compares something and has no such figure of its own."""
    own = suites_with_comparisons()
    return {
        f"{suite}_speedup": speedup(suite, sides)
        for suite, sides in all_sides(table, baseline)
        if (baseline or suite not in own) and compared(sides)
    }


def speedup(suite: str, sides: Sides) -> Chart:
    """Show the ratio of every side to the base, over the scale or else beside the work's names."""
    rows, found = rows_of(sides), compared(sides)
    scales = [name for name in sides.question.scale if name in sides.work]
    scale = next((name for name in scales if is_numeric(rows[name])), "")
    lines, works = [], []
    for side, _ in found:
        words = {name: sides.word(name, side.row[name]) for name in sides.work}
        works.append(", ".join(words.values()))
        lines.append(", ".join([side.name, *(words[name] for name in words if name != scale)]))
    over_scale = bool(scale) and len(set(lines)) <= MOST_SERIES
    bases = {base_words(sides, ratio.base) for _, ratio in found}
    base = bases.pop() if len(bases) == 1 else "the base"
    is_size = scale == SIZE
    return Chart(
        mark=LINES if over_scale else DOTS,
        title=f"{suite}: times as fast as {base}",
        note=note_on(found),
        x=Axis(scale, LOG, BYTES if is_size else "") if over_scale else Axis("", NAMES),
        y=Axis(f"time of {base} / time", LOG),
        points=points_of(
            rows,
            rows[scale] * (2**20 if is_size else 1) if over_scale else works,
            SPEEDUP,
            lines if over_scale else [side.name for side, _ in found],
        ),
        reference=1,
    )


def base_words(sides: Sides, base: Side) -> str:
    """Return what makes a side the base: "1 rank", of "1 rank ddp" and "1 rank fsdp"."""
    over = sides.contest.baseline if sides.contest else {}
    return " ".join(sides.word(name, base.row[name]) for name in over) or base.name


def is_numeric(values: pd.Series) -> bool:
    return bool(pd.to_numeric(values, errors="coerce").notna().all())


def note_on(found: list[tuple[Side, Ratio]]) -> str:
    """Say what the bars are."""
    known = [ratio for _, ratio in found if ratio.basis != APART]
    kinds: dict[str, list[int]] = {}
    for ratio in known:
        count, unit = ratio.basis.split()
        kind = "95 % interval" if ratio.is_interval else "range"
        kinds.setdefault(f"{kind} of {{}} {unit}", []).append(int(count))
    bars = (kind.format(counted(pd.Series(counts))) for kind, counts in kinds.items())
    lines = [f"bars: {' or '.join(bars)}"] if kinds else []
    if len(known) < len(found):
        lines.append("no bar: the two took no turns")
    return "\n".join(lines)
