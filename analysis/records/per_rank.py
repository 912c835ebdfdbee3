"""Rows per rank: busy and waiting time, and the details that a suite reports of each rank."""

from collections.abc import Mapping

import numpy as np

from analysis.records import places
from analysis.records.doubts import SPIKE
from analysis.records.results import Cell, RankColumns, plain_cell, plain_cells
from analysis.records.rows import RecordSettings
from benchkit.record.naming import escape_unprintable
from benchkit.record.record import CaseRecord, Record, as_array
from benchkit.statistics.intervals import Array, medians

WAITING = "_wait"
"""Ends the names of regions in which a rank waits. In the rest of a call the rank is busy. Without
such a region neither time is known."""


def derive_ranks(record: Record, settings: RecordSettings) -> list[RankColumns]:
    """Derive a row per rank of each measured case; times are medians in seconds.

    Cases of a single rank have a row only where they mark regions or report details of the rank.
    The columns, beside labels, regions and such details, are:

    - busy_s, wait_s: None where the case marks no waiting.
    - last_share: the share of iterations in which only this rank ended last.
    - late_s: how long after the first rank it began.
    - spike_share: the share of its samples beyond SPIKE times its median.
    - PLACE and STATE of rank_devices, as far as they are known.
    """
    measured = [case for case in record.cases if case.status == "ok"]
    most = max((case.num_ranks for case in measured), default=0)
    rank_places = places.place_columns(record, most)
    ranks_of_cases = []
    for case in measured:
        if columns := columns_of(case, record, rank_places):
            named = {escape_unprintable(name, keep=""): cells for name, cells in columns.items()}
            ranks_of_cases.append(
                RankColumns(plain_cells(settings.prefix_taken(case.labels)), named)
            )
    return ranks_of_cases


def columns_of(
    case: CaseRecord, record: Record, rank_places: Mapping[str, list[Cell]]
) -> dict[str, list[Cell] | None]:
    """Return the columns of a case, a cell per rank that took part; {} without rows."""
    regions, count = marked_regions(case), case.num_ranks
    details = {
        name: [plain_cell(value) for value in values[:count]]
        for name, values in case.details.items()
        if isinstance(values, list) and len(values) == record.world_size >= count
    }
    if record.world_size == 1 and not (regions or details):
        return {}
    samples = case.samples.calls_s
    waits = [spent for name, spent in regions.items() if name.endswith(WAITING)]
    waited = np.sum(waits, axis=0) if waits else None
    metrics = {
        **arrivals(case),
        "spike_share": (samples > SPIKE * medians(samples)[:, None]).mean(axis=1),
        "busy_s": None if waited is None else medians(samples - waited),
        "wait_s": None if waited is None else medians(waited),
        **{f"{name}_s": medians(spent) for name, spent in regions.items()},
    }
    return {
        "rank": list(range(count)),
        **{name: cells[:count] for name, cells in rank_places.items()},
        **places.gpu_state_columns(case, count),
        **{name: None if values is None else values.tolist() for name, values in metrics.items()},
        **details,
    }


def marked_regions(case: CaseRecord) -> dict[str, Array]:
    """Return the regions [rank][iteration] in which any time was spent."""
    regions = {name: as_array(spent[: case.ranks]) for name, spent in case.regions_s.items()}
    return {name: spent for name, spent in regions.items() if spent.any()}


def arrivals(case: CaseRecord) -> dict[str, Array]:
    """Return the order of starts and ends; {} where starts on the ranks cannot be compared."""
    samples = case.samples
    if samples.starts_s is None:
        return {}
    return {"last_share": samples.last_shares, "late_s": medians(samples.starts_s)}
