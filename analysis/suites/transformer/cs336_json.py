"""Reads and writes language models in the files of CS336's scripts.

These are one JSON file per configuration and pass, and a CSV file of many of them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from analysis.records.foreign import (
    Reading,
    Timing,
    deviation,
    ours,
    read_csv,
    seconds,
    status_of,
    whole,
)
from analysis.records.of_suite import cases_of
from analysis.repetitions import alike
from analysis.suites.transformer.rows import CASE, SUITE, whole_passes
from benchkit.record.record import CaseRecord
from benchkit.statistics.summary import slowest_rank
from benchkit.suites.transformer.suite import FORWARD, FORWARD_BACKWARD, PASS, TRAIN_STEP

SHORT_NAMES = {FORWARD: "fwd", FORWARD_BACKWARD: "fwd_bwd", TRAIN_STEP: "train"}
HEADS = frozenset((
    "model_size", "context_length", "batch_size", "num_steps", "forward_only", "mean_time_ms",
))  # fmt: skip
"""Keys by which a file is recognised."""


@dataclass(frozen=True, kw_only=True)
class Step(Timing):
    """A step of a language model."""

    SUITE: ClassVar[str] = SUITE
    ORDER: ClassVar[tuple[str, ...]] = (
        "model", "context_length", "batch_size", "step", "world_size", "source", "file",
    )  # fmt: skip

    model: str
    context_length: int
    batch_size: int
    step: str


def read(file: str, text: str) -> Reading | None:
    """Read a file of either kind; None where it is neither."""
    if not text.lstrip().startswith("{"):
        return read_csv(file, text, HEADS, row_of)
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        return None
    return Reading([row_of(file, content)]) if content.keys() >= HEADS else None


def row_of(file: str, content: Mapping[str, Any]) -> Step:
    """Make a row of one configuration and pass."""
    steps = whole(content["num_steps"])
    forward_only = str(content["forward_only"]).lower() == "true"
    step = FORWARD if forward_only else FORWARD_BACKWARD
    time_s = seconds(content["mean_time_ms"], 1e-3 / steps)
    return Step(
        source="cs336",
        file=file,
        device=str(content.get("device", "")).split(":")[0] or None,
        world_size=1,
        dtype="float32",
        time_s=time_s,
        std_s=deviation(content.get("std_time_ms"), 1e-3 / steps),
        status=status_of(time_s),
        estimator="mean over trials",
        conversion="time of a trial / num_steps" if steps > 1 else "as printed",
        model=str(content["model_size"]),
        context_length=whole(content["context_length"]),
        batch_size=whole(content["batch_size"]),
        step=str(content.get(PASS) or step),
    )


def recorded(row: Mapping[str, Any]) -> Step | None:
    """Convert a row of a record; None for a component of a step."""
    if row.get("is_component"):
        return None
    return Step(
        **ours(row),
        model=str(row["model"]),
        context_length=row["context_length"],
        batch_size=row["batch_size"],
        step=str(row.get(PASS)),
    )


def export(table: pd.DataFrame) -> dict[str, str]:
    """Return the files of all measured passes: their texts by their names."""
    texts = {}
    for suffix, part in alike(whole_passes(table), *CASE):
        for name, content in files_of(part[part["status"] == "ok"], suffix):
            texts[f"{name}.json"] = json.dumps(content, indent=2)
    return texts


def files_of(rows: pd.DataFrame, suffix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the content of each file.

    What was measured several times has a file for each time, in order of time: NAME.json,
    NAME_2.json, …
    """
    met: Counter[str] = Counter()
    for row, case in cases_of(rows):
        pass_name = SHORT_NAMES[row[PASS]]
        name = f"bench_{row['model']}_ctx{row['context_length']}_{pass_name}{suffix}"
        name = re.sub("[^0-9A-Za-z._-]", "-", name)
        met[name] += 1
        number = f"_{met[name]}" if met[name] > 1 else ""
        yield name + number, content_of(row, case)


def content_of(row: Mapping[str, Any], case: CaseRecord) -> dict[str, Any]:
    """Make the content of a file; its trial, a loop of num_steps steps, is one sample here."""
    times = slowest_rank(case.samples_s) * case.calls_per_sample * 1e3
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
