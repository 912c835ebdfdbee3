"""Tensor-parallel products shape by shape: the plain orders, the fastest, what `auto` took, and how good that was."""

from collections.abc import Iterator
from statistics import geometric_mean
from typing import Any

import pandas as pd

from analysis.run_spread import WITHIN, told_of_runs
from analysis.suites.tensor_parallel.rows import BOUNDS, SHAPE, groups_of, shape_of, title_of
from analysis.table import as_markdown

PLAIN, AUTO = "pytorch", "auto"
Row = dict[str, Any]
Shapes = dict[tuple[Any, ...], dict[str, Row]]
"""By shape, and by the name of an implementation, its row."""


def write(table: pd.DataFrame) -> dict[str, str]:
    return {f"{suite}_summary{suffix}.md": text_of(rows) for suite, suffix, rows in groups_of(table)}


def text_of(rows: pd.DataFrame) -> str:
    rivals = rows[~rows["implementation"].isin(BOUNDS)]
    shapes = {
        shape: {row["name"]: row for row in part.to_dict("records")}
        for shape, part in rivals.groupby(SHAPE)
    }  # fmt: skip
    parts = [f"# {title_of(rows)}", " ".join(told_of_runs(rows))]
    if lines := [line_of(shape, named) for shape, named in shapes.items()]:
        parts.append(as_markdown(pd.DataFrame(lines), shaped=True))
    autos = rivals.loc[rivals["implementation"] == AUTO, "name"].unique()
    if told := [*(line for name in autos for line in told_of_auto(shapes, name)), *told_of_overlap(shapes)]:
        parts += ["## All shapes", "\n".join(f"- {line}" for line in told)]
    return "\n\n".join(parts)


def line_of(shape: tuple[Any, ...], named: dict[str, Row]) -> Row:
    """The plain orders, the fastest and its speedup over the baseline, and `auto`, of one shape."""
    line: Row = {"shape": shape_of(shape)}
    line |= {f"{name} [ms]": row["median_s"] * 1e3 for name, row in named.items() if row["implementation"] == PLAIN}
    if fixed := fixed_of(named):
        best = fastest(fixed)
        line |= {"fastest": best["name"], "fastest [ms]": best["median_s"] * 1e3, "over the baseline": gain(best)}
        line["of the limit [%]"] = 100 * best["limit_share"]
        if pd.notna(best["doubt"]):
            line["doubt"] = best["doubt"]
    for row in named.values():
        if row["implementation"] == AUTO:
            line |= {f"{row['name']} [ms]": row["median_s"] * 1e3, f"{row['name']} took": row.get("chosen")}
    return line


def fixed_of(named: dict[str, Row]) -> list[Row]:
    """All but `auto`."""
    return [row for row in named.values() if row["implementation"] != AUTO]


def fastest(rows: list[Row]) -> Row:
    return min(rows, key=lambda row: float(row["median_s"]))


def gain(row: Row) -> str:
    """ "1.11 [1.06, 1.19]": the paired speedup and its interval; "" for the baseline, and where it was not measured."""
    if pd.isna(row["paired_speedup"]):
        return ""
    interval = f" [{row['paired_speedup_low']:.3g}, {row['paired_speedup_high']:.3g}]"
    return f"{row['paired_speedup']:.3g}" + (interval if pd.notna(row["paired_speedup_low"]) else "")


def told_of_auto(shapes: Shapes, auto: str) -> Iterator[str]:
    """`auto` beside the fastest of each shape, and beside each choice that could be made once for all shapes."""
    with_auto = [named for named in shapes.values() if auto in named and fixed_of(named)]
    if not with_auto:
        return
    ratios = [named[auto]["median_s"] / fastest(fixed_of(named))["median_s"] for named in with_auto]
    yield (
        f"{auto} took {geometric_mean(ratios):.3f} times as long as the fastest fixed choice of each shape (geometric "
        f"mean of {len(ratios)}; at most {max(ratios):.3f}). The fastest of many is a little too fast by chance."
    )
    everywhere = set.intersection(*({row["name"] for row in fixed_of(named)} for named in with_auto))
    over = {
        name: geometric_mean([named[auto]["median_s"] / named[name]["median_s"] for named in with_auto])
        for name in sorted(everywhere)
    }
    if over:
        name = max(over, key=lambda name: over[name])
        yield f"Of the choices made once for all shapes {name} is best; {auto} took {over[name]:.3f} times as long."


def told_of_overlap(shapes: Shapes) -> Iterator[str]:
    """Where what overlaps beats every plain order beyond their intervals."""
    for shape, named in shapes.items():
        plain = [row for row in named.values() if row["implementation"] == PLAIN]
        others = [row for row in fixed_of(named) if row["implementation"] != PLAIN]
        lows = [row["ci_low_s"] for row in plain]
        if lows and others and all(pd.notna(low) and fastest(others)["ci_high_s"] < low for low in lows):
            kind = WITHIN if fastest(others)["num_runs"] == 1 else "between runs"
            yield f"{shape_of(shape)}: {fastest(others)['name']} beats all plain orders beyond their intervals {kind}."
