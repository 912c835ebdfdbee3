"""Reads and writes all-reduces in the CSV of CS336's script."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.records.foreign import (
    Cells,
    Reading,
    deviation,
    positive,
    read_csv,
    seconds,
    status_of,
    whole,
)
from analysis.records.of_suite import cases_of
from analysis.repetitions import alike
from analysis.suites.collective.imported import Row
from analysis.text import as_csv
from benchkit.record.record import CaseRecord
from benchkit.statistics import LATENCY
from benchkit.suites.collective.names import ALL_REDUCE, TIMING, bus_factor

MEAN, SIZE = "avg_time_s", "data_size_mb"
HEADS = frozenset(("backend", "device", "world_size", SIZE, MEAN))
"""Columns by which a file is recognised."""
OF_FILE = ("backend", "device")
DEVICES = {"cuda": "gpu"}
"""How names of files call devices."""


def read(file: str, text: str) -> Reading | None:
    """Read a CSV file of the script; None where it is none."""
    return read_csv(file, text, HEADS, row_of)


def row_of(file: str, cells: Cells) -> Row:
    """Make a row of a line. Its bandwidth is of other units, and is computed anew."""
    world_size, time_s = whole(cells["world_size"]), seconds(cells[MEAN])
    payload_bytes = round(positive(cells[SIZE]) * 2**20)
    factor = bus_factor(ALL_REDUCE, world_size)
    algbw = payload_bytes / time_s / 1e9 if time_s else None
    return Row(
        source="cs336",
        file=file,
        backend=cells["backend"],
        device=cells["device"],
        world_size=world_size,
        dtype="float32",
        time_s=time_s,
        std_s=deviation(cells.get("std_time_s")),
        status=status_of(time_s),
        estimator="mean over iterations, average over ranks",
        conversion=f"S = {SIZE} x 2^20; time as printed; bandwidth = S / time",
        collective=ALL_REDUCE,
        reduce_op="sum",
        payload_bytes=payload_bytes,
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=algbw * factor if algbw and factor else None,
        in_place=True,
    )


def export(table: pd.DataFrame) -> dict[str, str]:
    """Write a file per backend and device, with one line per point and failures as lines."""
    rows = table[table["suite"] == Row.SUITE]
    if rows.empty or "collective" not in rows:
        return {}
    rows = rows.reindex(columns=list(dict.fromkeys((*rows, TIMING, "async_op"))))
    blocking = ~rows["async_op"].eq(True)
    rows = rows[(rows["collective"] == ALL_REDUCE) & blocking & (rows[TIMING] != LATENCY)]
    texts = {}
    for (backend, device), part in rows.groupby(list(OF_FILE)):
        for suffix, group in alike(part, "world_size", "data_size", TIMING):
            name = f"{backend}_{DEVICES.get(device, device)}_benchmark{suffix}.csv"
            texts[name] = as_csv(pd.DataFrame(lines_of(group)))
    return texts


def lines_of(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the line of each row, by backend, ranks and size."""
    measured = rows[rows["status"].isin(["ok", "invalid"]) & rows["mean_s"].notna()]
    lines = [line_of(row, case) for row, case in cases_of(measured)]
    failed = rows.drop(measured.index).to_dict("records")
    lines += [what(row) | {"error": row["reason"] or row["status"]} for row in failed]
    yield from sorted(lines, key=lambda line: (line["world_size"], line[SIZE]))


def what(row: Any) -> dict[str, Any]:
    """Return the columns that say what was measured."""
    named = {name: row[name] for name in OF_FILE}
    return named | {"world_size": int(row["world_size"]), SIZE: row["data_size"]}


def line_of(row: Any, case: CaseRecord) -> dict[str, Any]:
    """Make the line of a case.

    The mean is that of all ranks, the standard deviation the mean of the ranks', and the bandwidth
    in GiB/s, as the script computes them.
    """
    samples = case.samples_taking_part
    mean_s = float(samples.mean())
    return what(row) | {
        MEAN: mean_s,
        "std_time_s": float(samples.std(axis=1).mean()),
        "bandwidth_gb_s": row["data_size"] / 1024 / mean_s if mean_s else None,
    }
