"""Whether a sweep of 60 points survives its agent's death: SIGKILL at random moments, resumed until it is done.

Afterwards the records are those of a sweep that nobody killed, by key: none is lost, and none that was finished was
measured again.

    python -m perf.survival [--kills 200] [--seed 0]
    python -m perf.survival --slurm --kills 10     # scancel of the job that runs them, in place of SIGKILL
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

from benchkit.sweep import manifest
from tests.support.cli import ROOT

POINTS = 60
LONGEST_S = 9.0
"""Seconds from the start of a process to its death at most; some three pass before the first point."""
FIRST_JOB_S, LONGEST_JOB_S = 6.0, 25.0
"""The same for a job, which some ten seconds pass before."""
SWEEP = [
    "+suite=allreduce", "-m", "data_size=1KiB", "measure=fixed", "measure.max_iterations=3", "measure.mode=loop",
    "measure.calls_per_sample=1", f"seed=range({POINTS})", "hydra.sweep.dir=sweep",
]  # fmt: skip


def start(place: Path, slurm: bool) -> "subprocess.Popen[str]":
    """Starts the sweep, or goes on with it where it has begun."""
    begun = (place / "sweep" / manifest.FILE_NAME).exists()
    arguments = ["--resume", "sweep"] if begun else [*SWEEP, *(["launcher=slurm_packed"] if slurm else [])]
    return subprocess.Popen(
        [sys.executable, "-m", "benchkit", *arguments], cwd=place, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def ended_within(process: "subprocess.Popen[str]", seconds: float, jobs_of: Path | None = None) -> bool:
    """Whether a process ended by itself; otherwise it is killed, or the job that it waits for (`jobs_of`: a sweep)."""
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        if jobs_of is None:
            process.kill()
        elif jobs := manifest.read(jobs_of).jobs:
            subprocess.run(["scancel", jobs[-1].job_id], check=True)
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
    parser.add_argument("--slurm", action="store_true", help="in one job of a Slurm, which scancel ends")
    options = parser.parse_args()
    chance, kills, sweeps, wrong = random.Random(options.seed), 0, 0, list[str]()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        assert ended_within(start(Path(place), slurm=False), 600)
        records = [json.loads(path.read_text()) for path in (Path(place) / "sweep").glob("*/record.json")]
        expected = Counter(manifest.key_of(record["config"]) for record in records)
    while kills < options.kills:
        with tempfile.TemporaryDirectory() as place:
            sweep = Path(place) / "sweep"
            limits = (FIRST_JOB_S, LONGEST_JOB_S) if options.slurm else (0, LONGEST_S)
            while not ended_within(
                start(Path(place), options.slurm),
                chance.uniform(*limits) if kills < options.kills else 600,
                sweep if options.slurm else None,
            ):
                kills += 1
            attempts = len(list(sweep.glob("*/attempt_*.json")))
            sweeps += 1
            wrong += faults(Path(place), expected)
        told = f"{kills:4d} kills, {sweeps} sweeps done, {attempts} points of the last cut off"
        print(f"{told}, wrong: {wrong or 'nothing'}", flush=True)
    print(f"{time.monotonic() - began_s:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
