"""Sentences on speedups: over the baseline asked for, or over the first of the values swept."""

from collections.abc import Iterator

import pandas as pd

from analysis.baseline import Baseline
from analysis.cells import figure, half_width, measured
from analysis.report.contests import WAYS, whole_work
from analysis.report.naming import operation, settings
from analysis.run_spread import WITHIN
from analysis.speedup import ACROSS, compared, inner_columns
from analysis.table import own_columns
from benchkit.statistics.compare.spread import percent

FEW = 3
"""More points than this have a sentence on all of them before those on each."""
NO_SPREAD = "how much it varies is not known"


def describe(table: pd.DataFrame, baseline: Baseline | None) -> Iterator[str]:
    """Yield how much faster or slower points are than the baseline, first those that take longest.

    Args:
        table: measured rows of the combined table.
        baseline: what to compare with; by default the first value of each setting of words in
            which points differ, such as parallel=ddp.
    """
    whole = whole_work(table)
    for chosen in [baseline] if baseline else first_values(whole):
        for _, _, rows in compared(whole, chosen):
            for _, group in rows.groupby(list(chosen.values), sort=False, dropna=False):
                yield from of_group(group, chosen)


def first_values(table: pd.DataFrame) -> Iterator[Baseline]:
    """Yield a baseline per setting of words that differs between points, and not within one."""
    points = table.groupby("point_id")
    for name in own_columns(table):
        values = table[name].dropna()
        if name in WAYS or values.nunique() < 2 or not values.map(type).eq(str).all():
            continue
        is_operation = not set(values).isdisjoint(table["title"])
        if not is_operation and (points[name].nunique() <= 1).all():
            yield Baseline({name: values.iloc[0]})


def of_group(rows: pd.DataFrame, baseline: Baseline) -> Iterator[str]:
    """Yield sentences on the points of one alternative to the baseline."""
    inner = inner_columns(rows, baseline)
    longest_first = rows.sort_values("median_s", ascending=False)
    if len(rows) > FEW:
        first = longest_first.iloc[0]
        least, most, middle = (measured(rows["speedup"].quantile(share)) for share in (0, 1, 0.5))
        lows = rows["speedup_low"].fillna(rows["speedup_range_low"])
        highs = rows["speedup_high"].fillna(rows["speedup_range_high"])
        known, num_apart = lows.notna().sum(), ((lows > 1) | (highs < 1)).sum()
        spread = f"{num_apart} of {known} intervals or ranges are beyond 1" if known else NO_SPREAD
        yield (
            f"{operation(first)}: at {len(rows)} points the speedup of "
            f"{settings(first, baseline.values)} over {baseline} is {least} to {most}, at the "
            f"median {middle}; {spread}."
        )
    for _, row in longest_first.iterrows():
        yield of_point(row, inner, baseline)


def of_point(row: pd.Series, inner: list[str], baseline: Baseline) -> str:
    """Say how a point compares, and what is known of the ratio."""
    ratio, low, high = row["speedup"], row["speedup_low"], row["speedup_high"]
    is_interval = pd.notna(low)
    if not is_interval:
        low, high = row["speedup_range_low"], row["speedup_range_high"]
    how = "is {} times as fast as"
    if ratio < 1:
        ratio, low, high, how = 1 / ratio, 1 / high, 1 / low, "takes {} times as long as"
    half = half_width(low, high)
    where = settings(row, inner)
    head = f"{operation(row)} ({where})" if where else operation(row)
    ours = f"{settings(row, baseline.values)} {how.format(measured(ratio, half))} {baseline}"
    basis = row["speedup_basis"]
    if pd.isna(low):
        return f"{head}: {ours}; without an interval of both, that may be chance."
    kind = "95 % interval" if is_interval else "range"
    of = basis if basis == WITHIN or basis.startswith(ACROSS) else f"of {basis}"
    spread = f" ({kind} {of}, {figure(low, half)} to {figure(high, half)})"
    return f"{head}: {ours}{spread}{doubt(row, ratio, low, is_interval)}."


def doubt(row: pd.Series, ratio: float, low: float, is_interval: bool) -> str:
    """Say what speaks against the ratio; "" where nothing does."""
    if low <= 1:
        return f", which {'their intervals' if is_interval else 'runs'} do not tell apart"
    floor = row["identical_runs"]
    if row["speedup_basis"] == WITHIN and ratio - 1 < floor:
        return f", less than identical runs differ by (± {percent(floor)})"
    return ""
