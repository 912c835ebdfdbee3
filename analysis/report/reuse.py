"""Says whether it changed anything that ranks stayed from point to point."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchkit.statistics.compare.signed_rank import SignedRank, fewest_pairs

ALPHA = 0.05
LEAK_BYTES = 2**20
"""Ranks that hold so much more memory with each further point are said to leak."""


def describe(measured: pd.DataFrame) -> Iterator[str]:
    """Yield, per suite, the effect on times, and how much memory the ranks hold on to.

    Args:
        measured: rows of the combined table that are ok.
    """
    reused = measured[measured["points_before"].fillna(0) > 0]
    for suite, rows in reused.groupby("suite"):
        count = rows.groupby(["run", "point_id"]).ngroups
        ranks = "ranks that had measured others"
        yield f"{suite}: {count} points were measured by {ranks}{effect(rows)}."
    yield from leaks(measured)


def effect(rows: pd.DataFrame) -> str:
    """Format the ratio of times in ranks that had measured other points to those in fresh ranks.

    Each point that was measured both ways counts once, with the mean of its cases' log ratios.
    """
    logs = np.log(pd.to_numeric(rows["reuse_ratio"]))
    ratios = logs[logs.notna()].groupby([rows["run"], rows["point_id"]]).mean()
    if ratios.empty:
        return ", none of them by fresh ranks, too"
    test = SignedRank(ratios.to_numpy(dtype=float))
    low, high = np.exp(test.interval(ALPHA))
    ratio = f"{math.exp(test.estimate):.3f}"
    if len(ratios) < fewest_pairs(ALPHA):
        basis = f"{len(ratios)} pairs, too few for an interval"
        return f"; they take {ratio} times as long as fresh ranks ({basis})"
    meaning = "no change that shows" if low <= 1 <= high else "measure with ranks=fresh"
    interval = f"[{low:.3f}, {high:.3f}], {len(ratios)} pairs"
    return f"; they take {ratio} times as long as fresh ranks ({interval}): {meaning}"


def leaks(measured: pd.DataFrame) -> Iterator[str]:
    """Yield the runs whose ranks hold more memory with each further point."""
    points = measured.drop_duplicates(["run", "point_id"]).sort_values("started_at")
    for run, rows in points.groupby("run"):
        steps = rows["held_bytes"].diff()[rows["points_before"] > 0]
        growth = float(steps.median()) if steps.notna().any() else 0.0
        if growth > LEAK_BYTES:
            yield (
                f"{run}: ranks hold {growth / 2**20:.1f} MiB more with each point; "
                "this is a leak, and ranks=fresh avoids it."
            )
