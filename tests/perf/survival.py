"""Whether a sweep of 60 points survives its agent's death: SIGKILL at random moments, resumed until it is done.

Afterwards the records are those of a sweep that nobody killed, by key: none is lost, and none that was finished was
measured again.

    python -m tests.perf.survival [--kills 200] [--seed 0]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchkit import manifest
from tests.support.cli import ROOT

POINTS = 60
LONGEST_S = 9.0
"""Seconds from the start of a process to its death at most; some three pass before the first point."""
SWEEP = [
    "+suite=allreduce", "-m", "data_size=1KiB", "measure=fixed", "measure.max_iterations=3", "measure.mode=loop",
    "measure.calls_per_sample=1", f"seed=range({POINTS})", "hydra.sweep.dir=sweep",
]  # fmt: skip


def start(place: Path) -> "subprocess.Popen[str]":
    """Starts the sweep, or goes on with it where it has begun."""
    begun = (place / "sweep" / manifest.FILE_NAME).exists()
    arguments = ["--resume", "sweep"] if begun else SWEEP
    return subprocess.Popen(
        [sys.executable, "-m", "benchkit", *arguments], cwd=place, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def ended_within(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Whether a process ended by itself; it is killed otherwise."""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    assert process.returncode == 0, out
    return True


def faults(place: Path, expected: Counter[str]) -> Iterator[str]:
    """What is wrong with a sweep that is done, in words."""
    sweep = place / "sweep"
    records = [json.loads(path.read_text()) for path in sweep.glob("*/record.json")]
    found = Counter(manifest.key_of(record["config"]) for record in records)
    if found != expected:
        yield f"{sum((expected - found).values())} keys missing, {sum((found - expected).values())} too many"
    if statuses := Counter(record["status"] for record in records if record["status"] != "ok"):
        yield f"not ok: {dict(statuses)}"
    for path in sweep.glob("*/attempt_*.json"):
        if json.loads(path.read_text())["status"] == "ok":
            yield f"{path}: was finished, and measured again"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, kills, sweeps, wrong = random.Random(options.seed), 0, 0, list[str]()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        assert ended_within(start(Path(place)), 600)
        records = [json.loads(path.read_text()) for path in (Path(place) / "sweep").glob("*/record.json")]
        expected = Counter(manifest.key_of(record["config"]) for record in records)
    while kills < options.kills:
        with tempfile.TemporaryDirectory() as place:
            while not ended_within(start(Path(place)), chance.uniform(0, LONGEST_S) if kills < options.kills else 600):
                kills += 1
            attempts = len(list(Path(place).glob("sweep/*/attempt_*.json")))
            sweeps += 1
            wrong += faults(Path(place), expected)
        told = f"{kills:4d} kills, {sweeps} sweeps done, {attempts} points of the last cut off"
        print(f"{told}, wrong: {wrong or 'nothing'}", flush=True)
    print(f"{time.monotonic() - began_s:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
