"""Writes language models in the JSON of an older script: one file per configuration and pass."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.groups import alike
from analysis.suites.transformer.rows import CASE, LABELS, whole_passes
from benchkit.record import files
from benchkit.record.case import CaseRecord
from benchkit.statistics.summary import slowest_rank
from benchkit.suites.transformer.names import FORWARD, FORWARD_BACKWARD, PASS, TRAIN_STEP

SHORT_NAMES = {FORWARD: "fwd", FORWARD_BACKWARD: "fwd_bwd", TRAIN_STEP: "train"}


def write(table: pd.DataFrame) -> dict[str, str]:
    texts = {}
    for suffix, part in alike(whole_passes(table), *CASE):
        for name, content in files_of(part[part["status"] == "ok"], suffix):
            texts[f"json/{name}.json"] = json.dumps(content, indent=2)
    return texts


def files_of(rows: pd.DataFrame, suffix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the content of each file.

    Each row's record is read once more, because tables hold no samples. What was measured several
    times has a file for each time, in order of time: NAME.json, NAME_2.json, …
    """
    met: Counter[str] = Counter()
    for path, mine in rows.sort_values("started_at", kind="stable").groupby("path", sort=False):
        cases = files.read(Path(str(path))).cases
        for row in mine.to_dict("records"):
            labels = {name: row[name] for name in LABELS}
            case = next(case for case in cases if case.labels == labels)
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
