"""Strategies of ring attention at the harshest slowdown, and what ours gain over all cells."""

from collections.abc import Iterator, Mapping
from statistics import geometric_mean

import pandas as pd

from analysis.groups import by_mechanism
from analysis.records.comparisons import FIGURES
from analysis.records.slowdowns import Slowdown, slowdowns
from analysis.repetitions import over_runs
from analysis.run_spread import told_of_runs
from analysis.table import as_markdown

SUITE = "ring_attention"
RIVALS = ("even", "uneven", "lut", "formula")
OURS = ("balanced", "zigzag", "online")
CELL = ["seq_len", "slowdown"]
NEAR = 0.1
"""Within this of the ideal, or of the prediction, counts as near."""


def cells_of(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The measured rows by what was alike but for strategy, length and slowdown, and by mechanism.

    `slowdown` is a Slowdown. A row per cell and strategy, over all runs.
    """
    rows = table[(table["suite"] == SUITE) & (table["status"] == "ok")]
    if rows.empty:
        return []
    rows = rows.assign(slowdown=slowdowns(rows))
    numbers = [name for name in FIGURES if name in rows]
    rows = rows.assign(**{name: pd.to_numeric(rows[name], errors="coerce") for name in numbers})
    return [
        (suffix, over_runs(group, *CELL, "strategy").sort_values(CELL, kind="stable"))
        for suffix, group in by_mechanism(rows, "strategy", *CELL)
    ]


def write(table: pd.DataFrame) -> dict[str, str]:
    return {f"{SUITE}_rebalanced{suffix}.md": text_of(rows) for suffix, rows in cells_of(table)}


def text_of(rows: pd.DataFrame) -> str:
    factor = rows["slowdown"].max()
    title = f"# Ring attention, {'last rank' if factor.last_alone else 'ranks'} slowed {factor} times"
    parts = [title, " ".join(told_of_runs(rows)), as_markdown(harshest(rows, factor), shaped=True)]
    if lines := list(summary(rows)):
        parts += ["## All cells", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(parts)


def harshest(rows: pd.DataFrame, factor: Slowdown) -> pd.DataFrame:
    """A row per strategy: time, speedup over even and efficiency at each length."""
    found: dict[str, dict[str, float | str]] = {}
    for _, row in rows[rows["slowdown"] == factor].iterrows():
        line = found.setdefault(row["strategy"], {"strategy": row["strategy"]})
        tokens = f"{row['seq_len']:g} tokens"
        line[f"{tokens} [ms]"] = row["median_s"] * 1e3
        line[f"{tokens}, over even"] = 1.0 if row["strategy"] == "even" else row["paired_speedup"]
        line[f"{tokens}, efficiency [%]"] = 100 * row["efficiency"]
        if pd.notna(row["doubt"]):
            line[f"{tokens}, doubt"] = row["doubt"]
    return pd.DataFrame(list(found.values()))


def summary(rows: pd.DataFrame) -> Iterator[str]:
    """What each of our strategies gains over all cells in which it and its rivals were measured."""
    cells = [dict(zip(cell["strategy"], cell.to_dict("records"), strict=True)) for _, cell in rows.groupby(CELL)]
    for name in OURS:
        with_even = [cell for cell in cells if name in cell and "even" in cell]
        if not with_even:
            continue
        over_even = [cell[name]["paired_speedup"] for cell in with_even]
        over_best = [best_rival(cell) / cell[name]["median_s"] for cell in with_even]
        foretold = [cell[name] for cell in with_even if pd.notna(cell[name]["predicted_s"])]
        near = sum(abs(row["predicted_s"] / row["median_s"] - 1) <= NEAR for row in foretold)
        highs = [high for cell in with_even if pd.notna(high := cell[name]["paired_speedup_high"])]
        unknown = len(with_even) - len(highs)
        yield (
            f"{name}: {geometric_mean(over_even):.2f} times as fast as even, {geometric_mean(over_best):.2f} times as "
            f"fast as the best of {', '.join(rival for rival in RIVALS if any(rival in cell for cell in with_even))} "
            f"in each cell (geometric means of {len(with_even)}); slower than even beyond its interval in "
            f"{sum(high < 1 for high in highs)} of {len(highs)}"
            + (f", {unknown} without an interval" if unknown else "")
            + f"; within {NEAR:.0%} of the ideal in "
            f"{sum(abs(cell[name]['efficiency'] - 1) <= NEAR for cell in with_even)} of {len(with_even)}"
            + (f", of the prediction in {near} of {len(foretold)}." if foretold else ".")
        )


def best_rival(cell: Mapping[str, Mapping[str, float]]) -> float:
    """Time of the fastest strategy that is not ours."""
    return min(cell[name]["median_s"] for name in RIVALS if name in cell)
