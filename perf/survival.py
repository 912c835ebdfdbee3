"""Check that a sweep of 60 points survives its agents' death: SIGKILL at random moments, resumed until it is done.

Afterwards the records are those of a sweep that nobody killed, by key: none is lost, and none that was finished was
measured again. No process and no temporary file is left.

    python -m perf.survival [--kills 200] [--seed 0]
    python -m perf.survival --agents 2             # one of them is killed, the other ends by itself
    python -m perf.survival --slurm --kills 10     # scancel of the job that runs them, in place of SIGKILL
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchkit.sweep import manifest
from tests.support.cli import Cli, wait_until

POINTS = 60
ENDING_S = 90.0
"""Seconds within which all processes of a killed agent must have ended."""
TEMPORARY = "tmp"
LONGEST_S = 9.0
"""Seconds from the start of a process to its death at most; some three pass before the first point."""
FIRST_JOB_S, LONGEST_JOB_S = 6.0, 25.0
"""The same for a job; some ten seconds pass before it starts."""
SWEEP = [
    "+suite=allreduce", "-m", "data_size=1KiB", "measure=fixed", "measure.max_iterations=3", "measure.mode=loop",
    "measure.calls_per_sample=1", f"seed=range({POINTS})", "hydra.sweep.dir=sweep", "world_size=2",
    "join_timeout_s=20",
]  # fmt: skip


def start(cli: Cli, options: argparse.Namespace) -> "list[subprocess.Popen[str]]":
    """Start the sweep, or resume it."""
    begun = (cli.folder / "sweep" / manifest.FILE_NAME).exists()
    arguments = (
        ["--resume", "sweep", "--retry", "failed"]
        if begun
        else [*SWEEP, *(["launcher=slurm_packed"] if options.slurm else [])]
    )
    return cli.agents(2, *arguments) if options.agents == 2 else [cli.start(*arguments)]


def ended_within(
    processes: "list[subprocess.Popen[str]]", seconds: float, chance: random.Random, jobs_of: Path | None = None
) -> bool:
    """Return whether processes ended by themselves; otherwise kill one, or the job that it waits for (`jobs_of`)."""
    deadline = time.monotonic() + seconds
    if wait_until(lambda: all(process.poll() is not None for process in processes), seconds):
        for process in processes:
            out, err = process.communicate()
            assert process.returncode == 0, out + err
        return True
    if jobs_of is None:
        time.sleep(max(0.0, deadline - time.monotonic()))
        chance.choice(processes).kill()
    elif jobs := manifest.read(jobs_of).jobs:
        subprocess.run(["scancel", jobs[-1].job_id], check=True)
    for process in processes:
        process.communicate(timeout=ENDING_S)
    return False


def faults(place: Path, expected: Counter[str]) -> Iterator[str]:
    """Yield what is wrong with a sweep that is done, in words."""
    sweep = place / "sweep"
    records = [json.loads(path.read_text()) for path in sweep.glob("*/record.json")]
    found = keys_of(place)
    if found != expected:
        yield f"{sum((expected - found).values())} keys missing, {sum((found - expected).values())} too many"
    if statuses := Counter(record["status"] for record in records if record["status"] != "ok"):
        yield f"not ok: {dict(statuses)}"
    for path in sweep.glob("*/attempt_*.json"):
        if json.loads(path.read_text())["status"] == "ok":
            yield f"{path}: was finished, and measured again"


def left_behind(cli: Cli) -> Iterator[str]:
    """Yield what processes have left after all of them should be gone, in words."""
    if not wait_until(lambda: not cli.processes(), ENDING_S):
        yield f"{len(cli.processes())} processes live"
    if names := [path.name for path in (cli.folder / TEMPORARY).rglob("*") if not path.is_dir()]:
        yield f"left: {', '.join(names)}"
        shutil.rmtree(cli.folder / TEMPORARY)
        (cli.folder / TEMPORARY).mkdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slurm", action="store_true", help="in one job of a Slurm, which scancel ends")
    parser.add_argument("--agents", type=int, choices=(1, 2), default=1)
    options = parser.parse_args()
    chance, kills, sweeps, wrong = random.Random(options.seed), 0, 0, list[str]()
    began_s = time.monotonic()
    with sweep_folder() as cli:
        assert ended_within([cli.start(*SWEEP)], 600, chance)
        expected = keys_of(cli.folder)
    while kills < options.kills:
        with sweep_folder() as cli:
            sweep = cli.folder / "sweep"
            limits = (FIRST_JOB_S, LONGEST_JOB_S) if options.slurm else (0, LONGEST_S * options.agents)
            while not ended_within(
                start(cli, options),
                chance.uniform(*limits) if kills < options.kills else 600,
                chance,
                sweep if options.slurm else None,
            ):
                kills += 1
                wrong += left_behind(cli)
            attempts = len(list(sweep.glob("*/attempt_*.json")))
            sweeps += 1
            wrong += faults(cli.folder, expected)
        told = f"{kills:4d} kills, {sweeps} sweeps done, {attempts} points of the last cut off"
        print(f"{told}, wrong: {wrong or 'nothing'}", flush=True)
    print(f"{time.monotonic() - began_s:.0f} s")
    sys.exit(bool(wrong))


@contextmanager
def sweep_folder() -> Iterator[Cli]:
    """Provide a folder with a temporary folder in it."""
    with tempfile.TemporaryDirectory() as place:
        cli = Cli(Path(place))
        (cli.folder / TEMPORARY).mkdir()
        cli.environment["TMPDIR"] = str(cli.folder / TEMPORARY)
        yield cli


def keys_of(place: Path) -> Counter[str]:
    records = [json.loads(path.read_text()) for path in (place / "sweep").glob("*/record.json")]
    return Counter(manifest.key_of(record["config"]) for record in records)


if __name__ == "__main__":
    main()
