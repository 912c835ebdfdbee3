"""Read and write files of CS336's scripts: CSV of all-reduces, JSON or CSV of language models."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.foreign.collectives import CollectiveTiming, bandwidths
from analysis.foreign.timings import Cells, ForeignOutput, LinesByHeads, Reading, Timing, status_of
from analysis.records.results import Row
from analysis.records.suite_rows import rows_with_cases
from analysis.shared.text import as_csv
from analysis.suites.transformer import rows as transformer
from analysis.table.repetitions import group_equal_except
from benchkit.record.record import CaseRecord
from benchkit.statistics import LATENCY
from benchkit.statistics.samples import slowest_rank
from benchkit.suites.collective.suite import ALL_REDUCE, TIMING
from benchkit.suites.transformer.suite import FORWARD, FORWARD_BACKWARD, PASS, TRAIN_STEP

MEAN, SIZE = "avg_time_s", "data_size_mb"
DEVICES = {"cuda": "gpu"}
"""Devices in file names, where they differ."""


def all_reduces_of(file: str, cells: Cells) -> Iterator[CollectiveTiming]:
    """Yield the row of a line; the bandwidth is recomputed, because its unit differs."""
    world_size, time_s = cells.whole("world_size"), cells.seconds(MEAN)
    payload_bytes = round(cells.positive(SIZE) * 2**20)
    yield CollectiveTiming(
        source="cs336",
        file=file,
        backend=cells.word("backend"),
        device=cells.word("device"),
        world_size=world_size,
        dtype="float32",
        time_s=time_s,
        std_s=cells.deviation("std_time_s"),
        status=status_of(time_s),
        estimator="mean over iterations, average over ranks",
        conversion=f"S = {SIZE} x 2^20; time as printed; bandwidth = S / time",
        collective=ALL_REDUCE,
        reduce_op="sum",
        payload_bytes=payload_bytes,
        **bandwidths(ALL_REDUCE, payload_bytes, time_s, world_size),
        in_place=True,
    )


def export_all_reduces(table: pd.DataFrame) -> dict[str, str]:
    """Return a file per backend and device, with a line per point, failed ones too."""
    rows = table[table["suite"] == CollectiveTiming.SUITE]
    if rows.empty or "collective" not in rows:
        return {}
    rows = rows.reindex(columns=list(dict.fromkeys((*rows, TIMING, "async_op"))))
    blocking = ~rows["async_op"].eq(True)
    rows = rows[(rows["collective"] == ALL_REDUCE) & blocking & (rows[TIMING] != LATENCY)]
    texts = {}
    for (backend, device), part in rows.groupby(["backend", "device"]):
        for suffix, group in group_equal_except(part, "world_size", "data_size", TIMING):
            name = f"{backend}_{DEVICES.get(device, device)}_benchmark{suffix}.csv"
            texts[name] = as_csv(pd.DataFrame(all_reduce_lines(group)))
    return texts


def all_reduce_lines(rows: pd.DataFrame) -> list[Row]:
    """Return a line per row, sorted by ranks and size."""
    measured = rows[rows["status"].isin(["ok", "invalid"]) & rows["mean_s"].notna()]
    lines = [
        {**all_reduce_settings(row), **times_of(row, case)}
        for row, case in rows_with_cases(measured)
    ]
    for row in rows.drop(measured.index).to_dict("records"):
        lines.append({**all_reduce_settings(row), "error": row["reason"] or row["status"]})
    return sorted(lines, key=lambda line: (line["world_size"], line[SIZE]))


def all_reduce_settings(row: Row) -> Row:
    return {
        "backend": row["backend"],
        "device": row["device"],
        "world_size": int(row["world_size"]),
        SIZE: row["data_size"],
    }


def times_of(row: Row, case: CaseRecord) -> Row:
    """Compute the times of a case as the script does: its deviation is the mean over ranks."""
    samples = case.samples.calls_s
    mean_s = float(samples.mean())
    return {
        MEAN: mean_s,
        "std_time_s": float(samples.std(axis=1).mean()),
        "bandwidth_gb_s": row["data_size"] / 1024 / mean_s if mean_s else None,  # GiB/s
    }


SHORT_NAMES = {FORWARD: "fwd", FORWARD_BACKWARD: "fwd_bwd", TRAIN_STEP: "train"}
OF_MODEL = frozenset((
    "model_size", "context_length", "batch_size", "num_steps", "forward_only", "mean_time_ms",
))  # fmt: skip
"""Keys of JSON, or columns of CSV, that identify a file of models."""


@dataclass(frozen=True, kw_only=True)
class StepTiming(Timing):
    """A step of a language model."""

    SUITE = transformer.SUITE
    ORDER = ("model", "context_length", "batch_size", "step", "world_size", "source", "file")

    model: str
    context_length: int
    batch_size: int
    step: str

    @classmethod
    def of_record(cls, row: Row) -> "StepTiming | None":
        """Convert a row of a record; None for a component of a step."""
        if row.get("is_component"):
            return None
        return cls.from_row(row, model=str(row["model"]), step=str(row.get(PASS)))


def read_json(output: ForeignOutput) -> Reading | None:
    """Read one configuration and pass; None for another file."""
    try:
        content = json.loads(output.text)
    except json.JSONDecodeError:
        return None
    if not content.keys() >= OF_MODEL:
        return None
    return Reading(list(steps_of(output.file, Cells(content))))


def steps_of(file: str, cells: Cells) -> Iterator[StepTiming]:
    """Yield the row of one configuration and pass."""
    num_steps = cells.whole("num_steps")
    forward_only = str(cells["forward_only"]).lower() == "true"
    step = FORWARD if forward_only else FORWARD_BACKWARD
    time_s = cells.seconds("mean_time_ms", 1e-3 / num_steps)
    yield StepTiming(
        source="cs336",
        file=file,
        device=str(cells.get("device", "")).split(":")[0] or None,
        world_size=1,
        dtype="float32",
        time_s=time_s,
        std_s=cells.deviation("std_time_ms", 1e-3 / num_steps),
        status=status_of(time_s),
        estimator="mean over trials",
        conversion="time of a trial / num_steps" if num_steps > 1 else "as printed",
        model=cells.word("model_size"),
        context_length=cells.whole("context_length"),
        batch_size=cells.whole("batch_size"),
        step=str(cells.get(PASS) or step),
    )


def export_models(table: pd.DataFrame) -> dict[str, str]:
    """Return a file per measured pass.

    Repetitions have numbered files, in order of time: NAME.json, NAME_2.json, …
    """
    texts = {}
    for suffix, rows in group_equal_except(transformer.whole_passes(table), *transformer.CASE):
        counts: Counter[str] = Counter()
        for row, case in rows_with_cases(rows[rows["status"] == "ok"]):
            pass_name = SHORT_NAMES[row[PASS]]
            name = f"bench_{row['model']}_ctx{row['context_length']}_{pass_name}{suffix}"
            name = re.sub("[^0-9A-Za-z._-]", "-", name)
            counts[name] += 1
            number = f"_{counts[name]}" if counts[name] > 1 else ""
            texts[f"{name}{number}.json"] = json.dumps(model_content(row, case), indent=2)
    return texts


def model_content(row: Row, case: CaseRecord) -> Row:
    """Return the content of a file; a trial, a loop of num_steps steps, is one sample."""
    times = slowest_rank(case.samples.calls_s) * case.calls_per_sample * 1e3
    sizes = ("d_model", "d_ff", "num_layers", "num_heads")
    return {
        "model_size": row["model"],
        "vocab": int(row["model.vocab_size"]),
        "context_length": int(row["context_length"]),
        **{name: int(row[f"model.{name}"]) for name in sizes},
        "batch_size": int(row["batch_size"]),
        "num_steps": case.calls_per_sample,
        "num_warmups": len(case.warmup_s[0]) if case.warmup_s else 0,
        "num_trials": len(times),
        "forward_only": row[PASS] == FORWARD,
        "trial_times_ms": times.tolist(),
        "mean_time_ms": float(times.mean()),
        "std_time_ms": float(times.std(ddof=1)) if len(times) > 1 else None,
        "device": row["device"],
        "pass": row[PASS],
    }


CSV: LinesByHeads = {
    frozenset(("backend", "device", "world_size", SIZE, MEAN)): all_reduces_of,
    OF_MODEL: steps_of,
}
