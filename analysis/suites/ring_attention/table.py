"""Strategies of ring attention at the largest slowdown, and our gains over all cells."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

import pandas as pd

from analysis.records.columns import COMPARISONS, names_of
from analysis.records.slowdowns import Slowdown, slowdowns
from analysis.records.suite_rows import convert_to_numeric, measured_rows
from analysis.report.markdown import bullets, document, format_run_spread
from analysis.shared.text_table import as_markdown
from analysis.table.combine import cache_latest
from analysis.table.repetitions import add_group_to_title, aggregate_runs, group_by_mechanism
from benchkit.suites.ring_attention import suite as names
from benchkit.suites.ring_attention.suite import EVEN, REFERENCE, STRATEGY, TOKENS

SUITE = "ring_attention"
RATIO = ("reference_ratio", "reference_ratio_low", "reference_ratio_high")
"""T_ref/T and the ends of its interval, which are those of T."""
EFFICIENCY = ("efficiency", "efficiency_low", "efficiency_high")  # ideal time over T, alike
REFERENCE_S = "reference_s"
RIVALS = (EVEN, names.UNEVEN, names.LUT, names.FORMULA)
OURS = (names.BALANCED, names.ZIGZAG, names.ONLINE)
CELL = ["seq_len", "slowdown"]
Cell = Mapping[str, Mapping[str, float]]  # the rows of one length and slowdown, by strategy
NEAR = 0.1  # a time within this share of the ideal, or of the prediction, counts as near


@cache_latest
def cells_of(
    table: pd.DataFrame, suite: str = SUITE, case: Sequence[str] = (STRATEGY,)
) -> list[tuple[str, pd.DataFrame]]:
    """Group the measured rows that differ in case, length and slowdown alone, by mechanism.

    Each group has a row per cell and case, the labels that tell the cases of a cell apart, over all
    runs. `slowdown` is a Slowdown.
    """
    rows = measured_rows(table, suite)
    if rows.empty:
        return []
    rows = convert_to_numeric(rows, names_of(COMPARISONS))
    groups = (
        (suffix, group.assign(slowdown=slowdowns(group)))
        for suffix, group in group_by_mechanism(rows, *case, *CELL)
    )
    return [
        (suffix, aggregate_runs(group, *CELL, *case).sort_values(CELL, kind="stable"))
        for suffix, group in groups
    ]


def write(table: pd.DataFrame) -> dict[str, str]:
    return {
        f"{SUITE}_rebalanced{suffix}.md": add_group_to_title(text_of(rows), suffix)
        for suffix, rows in cells_of(table)
    }


def text_of(rows: pd.DataFrame) -> str:
    factor = rows["slowdown"].max()
    slowed = "last rank" if factor.is_last_rank_only else "ranks"
    title = f"# Ring attention, {slowed} slowed {factor} times"
    parts = [title, format_run_spread(rows), as_markdown(harshest(rows, factor))]
    if lines := list(summary(rows)):
        parts += ["## All cells", bullets(lines)]
    compared = tabulate(rows)
    if not compared.empty:
        parts += ["## Beside equal ranks at full speed", as_markdown(compared)]
    return document(*parts)


def harshest(rows: pd.DataFrame, factor: Slowdown) -> pd.DataFrame:
    """Make a row per strategy: time, speedup over even and efficiency at each length."""
    found: dict[str, dict[str, float | str]] = {}
    rows = with_efficiencies(rows)
    shown = [STRATEGY, "seq_len", "median_s", "paired_speedup", "efficiency", RATIO[0], "doubt"]
    for row in rows.loc[rows["slowdown"] == factor, shown].to_dict("records"):
        strategy = row[STRATEGY]
        line = found.setdefault(strategy, {"strategy": strategy})
        tokens = f"{row['seq_len']:g} tokens"
        line[f"{tokens} [ms]"] = row["median_s"] * 1e3
        line[f"{tokens}, over even"] = 1.0 if strategy == EVEN else row["paired_speedup"]
        line[f"{tokens}, efficiency [%]"] = 100 * row["efficiency"]
        line[f"{tokens}, T_ref/T [%]"] = 100 * row[RATIO[0]]
        if pd.notna(row["doubt"]):
            line[f"{tokens}, doubt"] = row["doubt"]
    return pd.DataFrame(list(found.values()))


def with_efficiencies(rows: pd.DataFrame) -> pd.DataFrame:
    """Add REFERENCE_S, RATIO and the ends of EFFICIENCY to the rows of cells."""
    found = rows.assign(**{REFERENCE_S: reference_times(rows)})
    for ideal, (value, low, high) in ((REFERENCE_S, RATIO), ("ideal_s", EFFICIENCY)):
        ends = {value: "median_s", low: "ci_high_s", high: "ci_low_s"}
        found = found.assign(**{name: found[ideal] / found[time] for name, time in ends.items()})
    return found


def reference_times(rows: pd.DataFrame) -> list[float]:
    """Return T_ref of each row in seconds, NaN where it was not measured.

    It is the time of the even split with all ranks at full speed: of the strategy REFERENCE in the
    same job, else of EVEN at the same length in a point without slowdown. Shares of a GPU cannot be
    lifted within a job, so that there the point without slowdown is the reference.
    """
    found: dict[tuple[Any, Any], float] = {}
    alone: dict[Any, float] = {}
    columns = (rows[name] for name in (STRATEGY, "seq_len", "slowdown", "median_s"))
    for strategy, length, slowdown, time_s in zip(*columns, strict=True):
        if strategy == REFERENCE:
            found[length, slowdown] = float(time_s)
        if strategy == EVEN and slowdown.lost_speed == 0:
            alone[length] = float(time_s)
    cells = zip(rows["seq_len"], rows["slowdown"], strict=True)
    return [found.get(cell, alone.get(cell[0], float("nan"))) for cell in cells]


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Make a row per cell and strategy: tokens per rank, T, T_ref, T_ref/T and T/T_ref."""
    rows = with_efficiencies(rows)
    rows = rows[rows[REFERENCE_S].notna() & (rows[STRATEGY] != REFERENCE)]
    return pd.DataFrame({
        "tokens": rows["seq_len"].astype(int),
        "slowdown": rows["slowdown"].map(str),
        "strategy": rows[STRATEGY],
        "tokens per rank": rows[TOKENS].astype(str) if TOKENS in rows else "",
        "T [ms]": rows["median_s"] * 1e3,
        "T_ref [ms]": rows[REFERENCE_S] * 1e3,
        "efficiency T_ref/T [%]": 100 * rows[RATIO[0]],
        "slowdown T/T_ref": 1 / rows[RATIO[0]],
    })  # fmt: skip


def summary(rows: pd.DataFrame) -> Iterator[str]:
    """Yield what each of our strategies gains over all cells in which it and even were measured."""
    figures = rows[["median_s", "paired_speedup", "efficiency", "predicted_s"]]
    cells = [
        dict(zip(cell[STRATEGY], figures.loc[cell.index].to_dict("records"), strict=True))
        for _, cell in rows[[STRATEGY, *CELL]].groupby(CELL)
    ]
    for name in OURS:
        compared = [cell for cell in cells if name in cell and EVEN in cell]
        if compared:
            yield summary_of(name, compared)


def summary_of(name: str, cells: Sequence[Cell]) -> str:
    ours = [cell[name] for cell in cells]
    over_even = geometric_mean([row["paired_speedup"] for row in ours])
    over_best = geometric_mean([best_rival(cell) / cell[name]["median_s"] for cell in cells])
    measured = set().union(*cells)
    rivals = ", ".join(rival for rival in RIVALS if rival in measured)
    facts = [
        f"{over_even:.2f} × even",
        f"{over_best:.2f} × the best of {rivals}",
        f"within {NEAR:.0%} of the ideal in {count_near(row['efficiency'] for row in ours)}",
    ]
    predicted = [row for row in ours if pd.notna(row["predicted_s"])]
    if predicted:
        shares = (row["predicted_s"] / row["median_s"] for row in predicted)
        facts.append(f"within {NEAR:.0%} of the prediction in {count_near(shares)}")
    means = f" (geometric means of {len(cells)} cells)" if len(cells) > 1 else ""
    return f"{name}{means}: {'; '.join(facts)}."


def count_near(shares: Iterable[float]) -> str:
    """Format how many of some shares are within NEAR of 1: "3 of 4"."""
    near = [abs(share - 1) <= NEAR for share in shares]
    return f"{sum(near)} of {len(near)}"


def best_rival(cell: Cell) -> float:
    """Return the time of the fastest strategy that is not ours."""
    return min(cell[name]["median_s"] for name in RIVALS if name in cell)


def label_of(rows: pd.DataFrame) -> str:
    alone = all(slowdown.is_last_rank_only for slowdown in rows["slowdown"])
    return "slowdown of the last rank" if alone else "slowdown of each rank, or of the last"
