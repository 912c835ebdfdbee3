"""Packs the samples of cases for the page, which shows them on a click.

Histograms and quantiles are of all samples. The times over the iterations are thinned where a page
would become too large: then each of several iterations in a row gives their least, median and
highest time.
"""

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.records.rows import starts_of
from analysis.report.chart import PAGE_ROW
from benchkit.record import files
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.statistics.intervals import Array
from benchkit.statistics.summary import iteration_times

NUM_BYTES = 1_600_000
"""Of all samples on a page, as text."""
MOST_VALUES, FEWEST_VALUES = 3000, 60
"""Times of one case on the page, whatever its share of NUM_BYTES is."""
NUM_BINS, SPARK_HEIGHT = 32, 20
QUANTILES = (0, 5, 25, 50, 75, 95, 100)
"""In percent, of each rank."""
MOST_RANKS = 64
"""Of more ranks, those with the longest medians are shown."""
OVERHEAD_BYTES = 200
"""Of a case, beside its times and quantiles."""


def records_of(table: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, Record]]:
    """Read each record once more, because tables hold no samples; yield it with its rows.

    The rows are in the order of the record's cases; one row stands for a record without cases. A
    record that is no longer readable, or has changed, is left out.
    """
    for path, rows in table.groupby("path", sort=False):
        try:
            record = files.read(Path(str(path)))
        except ValueError:
            continue
        if len(rows) == max(1, len(record.cases)):
            yield rows, record


def samples_of(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the packed samples of all measured cases, by PAGE_ROW, each with its `median`."""
    measured = table[table["status"] == "ok"]
    num_values = values_per_case(len(measured), measured["world_size"].max())
    found = {}
    for rows, record in records_of(table[table["path"].isin(measured["path"])]):
        for row, median_s, case in zip(rows[PAGE_ROW], rows["median_s"], record.cases, strict=True):
            if case.status == "ok":
                found[row] = {"median": median_s, **packed(case, record, num_values)}
    return found


def values_per_case(num_cases: int, num_ranks: float) -> int:
    """Return how many times each case may have on the page, so that all fit in NUM_BYTES."""
    if not num_cases:
        return MOST_VALUES
    room = NUM_BYTES / num_cases - OVERHEAD_BYTES
    numbers = room * 3 / 4 / 4  # Base64 has four letters for three bytes.
    left = numbers - len(QUANTILES) * min(num_ranks, MOST_RANKS)
    return int(np.clip(left, FEWEST_VALUES, MOST_VALUES))


def packed(case: CaseRecord, record: Record, num_values: int) -> dict[str, Any]:
    """Return the samples of a case as JSON.

    Args:
        case: a measured case.
        record: of the case.
        num_values: most times to keep.

    Returns:
        `n`: number of iterations. `step`: how many of them are one entry of `times`. `times`: in
        seconds; with a step above 1 all least, then all median, then all highest ones. `low`,
        `high` and `counts`: a histogram, whose bins are equally wide in their logarithms. `ranks`:
        the numbers of the ranks shown, of `num_ranks`. `quantiles`: QUANTILES of each of them.
    """
    samples = np.asarray(case.samples_taking_part, dtype=np.float64)
    times = iteration_times(samples, starts_of(case, record), case.estimator)
    step, kept = thinned(times, num_values)
    low, high = float(times.min()), float(times.max())
    counts = [len(times)]
    if high > low:
        counts = np.histogram(times, np.geomspace(low, high, NUM_BINS + 1))[0].tolist()
    medians = np.median(samples, axis=1)
    ranks = np.sort(np.argsort(-medians, kind="stable")[:MOST_RANKS])
    return {
        "n": len(times),
        "step": step,
        "times": as_text(kept),
        "low": low,
        "high": high,
        "counts": counts,
        "ranks": ranks.tolist(),
        "num_ranks": len(samples),
        "quantiles": as_text(np.percentile(samples[ranks], QUANTILES, axis=1).T),
    }


def thinned(times: Array, num_values: int) -> tuple[int, Array]:
    """Reduce times to at most `num_values`, or little more.

    Returns:
        How many iterations are one entry, and the times; with more than one iteration per entry
        the least ones, the medians and the highest ones: [3][entry].
    """
    if len(times) <= num_values:
        return 1, times
    step = -(-len(times) // max(1, num_values // 3))
    rows = np.full(-(-len(times) // step) * step, np.nan)
    rows[: len(times)] = times
    parts = rows.reshape(-1, step)
    return step, np.array(
        [reduce(parts, axis=1) for reduce in (np.nanmin, np.nanmedian, np.nanmax)]
    )


def as_text(values: Array) -> str:
    """Encode numbers as float32 in base64, in the byte order of all common machines."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode()


def sparkline(sample: Mapping[str, Any]) -> str:
    """Return the outline of a histogram as the path of an SVG, one wide per bin and 20 high."""
    counts = sample["counts"]
    heights = [round(SPARK_HEIGHT * (1 - count / max(counts))) for count in counts]
    steps = "".join(f"V{top}h{NUM_BINS // len(counts)}" for top in heights)
    return f"M0,{SPARK_HEIGHT}{steps}V{SPARK_HEIGHT}Z"
