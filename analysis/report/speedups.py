"""Speedups over what a suite's question, or the user, compares with: a table, and figures."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from analysis.answers import WORDS, listed
from analysis.discover import suites_with_comparisons
from analysis.records.slowdowns import slowdowns
from analysis.repetitions import counted
from analysis.report.chart import (
    BYTES,
    CELLS,
    DOTS,
    LINES,
    LOG,
    NAMES,
    Axis,
    Chart,
    Charts,
    points_of,
)
from analysis.speedup import Speedup, Standing, Variant
from analysis.table import identity_columns
from analysis.variants import (
    Baseline,
    Variants,
    all_variants,
)
from benchkit.statistics.judgement import AHEAD

SIZE, SLOWDOWN = "data_size", "slowdown"
SPEEDUP = ("speedup", "speedup_low", "speedup_high")
MADE = ("baseline", "median_s_baseline", *SPEEDUP, "speedup_basis", "judgement", "median_s")
FEWEST_CHOICES = 3
"""Fewer variants need no map of the fastest one."""
CELL_WIDTH = 18
MOST_LINES, MOST_PANELS = 6, 6
"""More lines over numbers hide each other; of up to MOST_PANELS problems each has a panel."""


def as_table(table: pd.DataFrame, baseline: Baseline | None) -> pd.DataFrame | None:
    """Return a row per variant that is compared, with its baseline; None without any.

    The times are those that are compared, of the runs that have both. The ends of `speedup` are
    those of an interval or of a range, as `speedup_basis` says.
    """
    found = [
        rows_of(own) for each in all_variants(table, baseline).values() if (own := compared(each))
    ]
    if not found:
        return None
    rows, columns = pd.concat(found), identity_columns(table)
    return rows[[*columns, *MADE, "run"]]


def compared(variants: Variants) -> list[tuple[Variant, Speedup]]:
    return [(each, each.speedup) for each in variants.variants if each.speedup]


def rows_of(found: Iterable[tuple[Variant, Speedup]]) -> pd.DataFrame:
    """Return the rows of variants that are compared, with the columns MADE."""
    rows = []
    for variant, speedup in found:
        kind = ", 95 % interval" if speedup.is_interval else ", range"
        basis = speedup.basis + kind if speedup.basis else speedup.reason
        ends = (speedup.value, speedup.low, speedup.high)
        own_s, over_s = speedup.times_s
        made = (speedup.over.name, over_s, *ends, basis, speedup.judgement, own_s)
        rows.append({**variant.row, **dict(zip(MADE, made, strict=True))})
    return pd.DataFrame(rows)


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return the figures of each suite that compares something and has none of its own."""
    own, charts = suites_with_comparisons(), Charts()
    for suite, variants in all_variants(table, baseline).items():
        if (baseline or suite not in own) and compared(variants):
            charts[f"{suite}_speedup"] = speedups(suite, variants)
            if len(variants.standings) > 1 and len(variants.names) >= FEWEST_CHOICES:
                charts[f"{suite}_winner"] = winners(suite, variants)
    return charts


def speedups(suite: str, variants: Variants) -> Chart:
    """Show the speedup of every variant: over the scale, beside each problem, or by its name."""
    found = sorted(compared(variants), key=lambda each: each[0].cost if not variants.problem else 0)
    rows = rows_of(found)
    base = " or ".join(dict.fromkeys(speedup.over.name for _, speedup in found)) or "the baseline"
    scale = next((name for name in variants.question.scale if name in variants.problem), "")
    problem = [name for name in variants.problem if name != scale]
    rest = words_of(variants, rows, problem)
    names = [each.name for each, _ in found]
    x: Any = words_of(variants, rows, [scale]) if scale else rest
    axis, mark = Axis("", NAMES), LINES if scale == SLOWDOWN else DOTS
    is_crowd = len({*names}) > MOST_LINES and len(variants.by_problem) <= MOST_PANELS
    if is_crowd and scale != SLOWDOWN:
        rest, x, mark = words_of(variants, rows, variants.problem), names, DOTS
    elif scale not in ("", SLOWDOWN) and pd.to_numeric(rows[scale], errors="coerce").notna().all():
        is_size = scale == SIZE
        x = pd.to_numeric(rows[scale]) * (2**20 if is_size else 1)
        axis, mark = Axis(scale, LOG, BYTES if is_size else ""), LINES
    elif not any(x):
        x = names
    return Chart(
        mark=mark,
        title=f"{suite}: times as fast as {base}",
        note=note_on([speedup for _, speedup in found]),
        x=axis,
        y=Axis(f"time of {base} / time", LOG),
        points=points_of(rows, x, SPEEDUP, names, rest if scale or is_crowd else ""),
        series=tuple(variants.names),
        reference=1,
    )


def words_of(variants: Variants, rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return what some columns of the problem say of each row; a slowdown as it was measured."""
    texts = {
        name: list(map(str, slowdowns(rows))) if name == SLOWDOWN else rows[name]
        for name in columns
    }
    words = ([variants.word(name, value) for value in of] for name, of in texts.items())
    return [", ".join(each) for each in zip(*words, strict=True)] or [""] * len(rows)


def winners(suite: str, variants: Variants) -> Chart:
    """Map the fastest variant of each problem, its speedup, and what is judged of it."""
    standings = list(variants.standings.values())
    scale = [name for name in variants.question.scale if name in variants.problem]
    across = (scale or variants.problem)[:1]
    down = [name for name in variants.problem if name not in across]
    gains = [each.first.speedup.value if each.first.speedup else 1.0 for each in standings]
    rows = pd.DataFrame([each.first.row for each in standings]).assign(gain=gains)
    texts = [cell_text(each, gain) for each, gain in zip(standings, gains, strict=True)]
    base = " or ".join(variants.baselines)
    return Chart(
        mark=CELLS,
        title=f"{suite}: the fastest",
        note=f"ahead of all others, except where a cell says else; × as fast as {base}",
        x=Axis("", NAMES),
        y=Axis(f"speedup over {base}"),
        points=points_of(
            rows,
            words_of(variants, rows, across),
            ("gain",),
            words_of(variants, rows, down),
            text=texts,
        ),
    )


def cell_text(standing: Standing, gain: float) -> str:
    lines = [standing.first.name, f"{gain:.2f}×"]
    if standing.reason:
        lines.append(f"not judged: {standing.reason}")
    else:
        words = dict.fromkeys(word for _, word in standing.judgements if word != AHEAD)
        lines += [f"{WORDS.get(word, word)}: {listed(standing.named(word))}" for word in words]
    return "\n".join(textwrap.fill(line, CELL_WIDTH) for line in lines)


def note_on(found: list[Speedup]) -> str:
    """Say what the bars are."""
    kinds: dict[str, list[int]] = {}
    for speedup in found:
        if speedup.basis:
            count, unit = speedup.basis.split(" ", 1)
            kind = "95 % interval" if speedup.is_interval else "range"
            kinds.setdefault(f"{kind} of {{}} {unit.removesuffix('s')}s", []).append(int(count))
    bars = (kind.format(counted(pd.Series(counts))) for kind, counts in kinds.items())
    lines = [f"bars: {' or '.join(bars)}"] if kinds else []
    apart = {speedup.reason for speedup in found if not speedup.basis}
    lines += [f"no bar: {' or '.join(sorted(apart))}"] if apart else []
    return "\n".join(lines)
