"""Takes the speedups of a job from fresh ranks where taking turns changed them."""

from typing import Any

import pandas as pd

from analysis.repetitions import over_runs
from analysis.table import identity_columns

FRESH = "fresh ranks"
"""In the column `speedup_from`; it is empty where the cases took turns."""
LIMITS = ("paired_speedup_low", "paired_speedup_high")


def with_fresh_speedups(table: pd.DataFrame) -> pd.DataFrame:
    """Replace `paired_speedup` by `alone_speedup` where the two differ.

    Both cases of `paired_speedup` took turns in one job, those of `alone_speedup` were alone in
    fresh ranks. `is_changed` says of each point whether their ratio is more than chance; then all
    rows of the point take the latter, which has an interval over runs alone, and keep the former in
    `speedup_in_turns`.

    Args:
        table: the combined table.
    """
    known = table["alone_speedup"].notna() & table["paired_speedup"].notna()
    if not known.any():
        return table
    rows = table[known]
    columns = identity_columns(table)
    rows = rows.assign(turns_ratio=rows["paired_speedup"] / rows["alone_speedup"])
    points = over_runs(rows, *columns)
    number = rows.groupby(columns, dropna=False, sort=False).ngroup()
    changed = {number[index] for index, point in points.iterrows() if is_changed(point)}
    fresh = number.isin(changed).reindex(table.index, fill_value=False)
    in_turns, alone = table["paired_speedup"], table["alone_speedup"]
    return table.assign(
        speedup_from=table["speedup_from"].astype(object).mask(fresh, FRESH),
        speedup_in_turns=in_turns.where(fresh),
        paired_speedup=in_turns.mask(fresh, alone),
        **{name: table[name].mask(fresh) for name in LIMITS},
    )


def is_changed(point: Any) -> bool:
    """Return whether `turns_ratio` of a row of `over_runs` is more than chance.

    Its interval between runs leaves out 1 or, where there are too few runs for one, it is beyond
    what two identical runs differ by. Without a noise floor nothing is more than chance.
    """
    ratio = point["turns_ratio"]
    if pd.notna(point["turns_ratio_low"]):
        return not point["turns_ratio_low"] <= 1 <= point["turns_ratio_high"]
    return bool(max(ratio, 1 / ratio) - 1 > point["identical_runs"])
