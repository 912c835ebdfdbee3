"""Speedups over the baseline of a suite's question, or of the user: a table, and figures."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from analysis.records.slowdowns import slowdowns
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
    chart_points,
)
from analysis.screen.answers import WORDS, join_names
from analysis.shared.discover import suites_with_comparisons
from analysis.table.combine import identity_columns
from analysis.table.repetitions import format_count_range
from analysis.table.speedup import Speedup, Standing, Variant
from analysis.table.variants import Baseline, SuiteResults, compare_suites
from benchkit.statistics.judgement import AHEAD

SIZE, SLOWDOWN = "data_size", "slowdown"
SPEEDUP = ("speedup", "speedup_low", "speedup_high")
MADE = ("baseline", "median_s_baseline", *SPEEDUP, "speedup_basis", "judgement", "median_s")
FEWEST_CHOICES = 3
"""Least number of variants for a map of the fastest one."""
CELL_WIDTH = 18
MOST_LINES, MOST_PANELS = 6, 6
"""Most lines over numbers, since more hide each other; most problems with a panel each."""


def as_table(table: pd.DataFrame, baseline: Baseline | None) -> pd.DataFrame | None:
    """Return a row per compared variant, with its baseline; None without any.

    Times are of the runs that have both. The bounds of `speedup` are those of an interval or of a
    range, as `speedup_basis` says.
    """
    tables = [
        speedup_rows(with_speedup)
        for results in compare_suites(table, baseline).values()
        if (with_speedup := variants_with_speedup(results))
    ]
    if not tables:
        return None
    rows, columns = pd.concat(tables), identity_columns(table)
    return rows[[*columns, *MADE, "run"]]


def variants_with_speedup(variants: SuiteResults) -> list[tuple[Variant, Speedup]]:
    return [(variant, variant.speedup) for variant in variants.variants if variant.speedup]


def speedup_rows(with_speedup: Iterable[tuple[Variant, Speedup]]) -> pd.DataFrame:
    """Return the rows of compared variants, with the columns MADE."""
    rows = []
    for variant, speedup in with_speedup:
        kind = ", 95 % interval" if speedup.is_interval else ", range"
        basis = speedup.basis + kind if speedup.basis else speedup.why_not_judged
        bounds = (speedup.value, speedup.low, speedup.high)
        own_s, reference_s = speedup.times_s
        cells = (speedup.reference.name, reference_s, *bounds, basis, speedup.judgement, own_s)
        rows.append({**variant.row, **dict(zip(MADE, cells, strict=True))})
    return pd.DataFrame(rows)


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    """Return the figures of each suite with a comparison, but without own figures of it."""
    drawn_elsewhere, charts = suites_with_comparisons(), Charts()
    for suite, variants in compare_suites(table, baseline).items():
        if (baseline or suite not in drawn_elsewhere) and variants_with_speedup(variants):
            charts[f"{suite}_speedup"] = speedups(suite, variants)
            if len(variants.standings) > 1 and len(variants.names) >= FEWEST_CHOICES:
                charts[f"{suite}_winner"] = winners(suite, variants)
    return charts


def speedups(suite: str, variants: SuiteResults) -> Chart:
    """Return a chart of the speedup of each variant over the scaling column, problem, or name."""
    with_speedup = sorted(
        variants_with_speedup(variants),
        key=lambda pair: pair[0].relative_time if not variants.problem_columns else 0,
    )
    rows = speedup_rows(with_speedup)
    base = (
        " or ".join(dict.fromkeys(speedup.reference.name for _, speedup in with_speedup))
        or "the baseline"
    )
    scale = next(iter(variants.scale), "")
    problem = [name for name in variants.problem_columns if name != scale]
    other_words = words_of(variants, rows, problem)
    names = [pair.name for pair, _ in with_speedup]
    x: Any = words_of(variants, rows, [scale]) if scale else other_words
    axis, mark = Axis("", NAMES), LINES if scale == SLOWDOWN else DOTS
    is_crowd = len({*names}) > MOST_LINES and len(variants.by_problem) <= MOST_PANELS
    if is_crowd and scale != SLOWDOWN:
        other_words, x, mark = words_of(variants, rows, variants.problem_columns), names, DOTS
    elif scale not in ("", SLOWDOWN) and pd.to_numeric(rows[scale], errors="coerce").notna().all():
        is_size = scale == SIZE
        x = pd.to_numeric(rows[scale]) * (2**20 if is_size else 1)
        axis, mark = Axis(scale, LOG, BYTES if is_size else ""), LINES
    elif not any(x):
        x = names
    return Chart(
        mark=mark,
        title=f"{suite}: times as fast as {base}",
        note=note_on([speedup for _, speedup in with_speedup]),
        x=axis,
        y=Axis(f"time of {base} / time", LOG),
        points=chart_points(rows, x, SPEEDUP, names, other_words if scale or is_crowd else ""),
        series=tuple(variants.names),
        reference=1,
    )


def words_of(variants: SuiteResults, rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Format some columns of the problem of each row; a slowdown as measured."""
    texts = {
        name: list(map(str, slowdowns(rows))) if name == SLOWDOWN else rows[name]
        for name in columns
    }
    words = (
        [variants.format_value(name, value) for value in values] for name, values in texts.items()
    )
    return [", ".join(row_words) for row_words in zip(*words, strict=True)] or [""] * len(rows)


def winners(suite: str, variants: SuiteResults) -> Chart:
    """Map the fastest variant of each problem, its speedup, and its judgement."""
    standings = list(variants.standings.values())
    scale = variants.scale
    across = (scale or variants.problem_columns)[:1]
    down = [name for name in variants.problem_columns if name not in across]
    gains = [
        standing.fastest.speedup.value if standing.fastest.speedup else 1.0
        for standing in standings
    ]
    rows = pd.DataFrame([standing.fastest.row for standing in standings]).assign(gain=gains)
    texts = [cell_text(standing, gain) for standing, gain in zip(standings, gains, strict=True)]
    base = " or ".join(variants.baselines)
    return Chart(
        mark=CELLS,
        title=f"{suite}: the fastest",
        note=f"ahead of all others, except where a cell says else; × as fast as {base}",
        x=Axis("", NAMES),
        y=Axis(f"speedup over {base}"),
        points=chart_points(
            rows,
            words_of(variants, rows, across),
            ("gain",),
            words_of(variants, rows, down),
            text=texts,
        ),
    )


def cell_text(standing: Standing, gain: float) -> str:
    lines = [standing.fastest.name, f"{gain:.2f}×"]
    if standing.reason:
        lines.append(f"not judged: {standing.reason}")
    else:
        words = dict.fromkeys(word for _, word in standing.judgements if word != AHEAD)
        lines += [
            f"{WORDS.get(word, word)}: {join_names(standing.names_judged(word))}" for word in words
        ]
    return "\n".join(textwrap.fill(line, CELL_WIDTH) for line in lines)


def note_on(speedups_shown: list[Speedup]) -> str:
    """Describe the error bars."""
    kinds: dict[str, list[int]] = {}
    for speedup in speedups_shown:
        if speedup.basis:
            count, unit = speedup.basis.split(" ", 1)
            kind = "95 % interval" if speedup.is_interval else "range"
            kinds.setdefault(f"{kind} of {{}} {unit.removesuffix('s')}s", []).append(int(count))
    bars = (kind.format(format_count_range(pd.Series(counts))) for kind, counts in kinds.items())
    lines = [f"bars: {' or '.join(bars)}"] if kinds else []
    reasons = {speedup.why_not_judged for speedup in speedups_shown if not speedup.basis}
    lines += [f"no bar: {' or '.join(sorted(reasons))}"] if reasons else []
    return "\n".join(lines)
