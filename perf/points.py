"""Measure the total cost of a point of a sweep, beside hand-written scripts that measure the same points.

    python -m perf.points [--points 50] [--parts] [--arms "benchkit ranks=reuse" "Hydra -m, empty"]

Run with this process as the only agent, and inside one allocation of two agents: torchrun's, and Slurm's if srun works.
With --parts also measure each part of a point, in fresh ranks and in reused ranks; the floor, one hand-written process
group that measures all points in a loop; torchrun once per point; and Hydra's own multirun of an empty function. --arms
names those to run beside benchkit.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

from benchkit.record import files
from tests.support.cli import ROOT

ITERATIONS = 20
SCRIPTS = "perf.points_scripts"
SWEEP = (
    "-m", "benchkit", "+suite=allreduce", "-m", "data_size=0.001", "measure=fixed",
    f"measure.max_iterations={ITERATIONS}", "measure.mode=loop",  # one case per point, as the scripts have
)  # fmt: skip
PARTS = {
    "fork": ("spawn",),
    "init": ("init",),
    "build": ("build",),
    "verify": ("verify", "verify_again"),
    "exit": ("exit",),
}
"""Phases of a record that are neither the measurement nor work of the agent around the ranks."""


def time_per_point(command: list[str], points: int) -> float:
    """Return the wall seconds per point of a command, from its start to its end, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": folder}
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
        return (time.perf_counter() - began) / points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--arms", nargs="+", help="names of some arms")
    given = parser.parse_args()
    python, points = sys.executable, given.points
    sweep = [*SWEEP, f"seed=range({points})"]
    torchrun = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    arms = {
        "benchkit": [python, *sweep],
        "torchrun, 2 agents": [*torchrun, *sweep],
        "srun, 2 agents": ["srun", "--nodes=2", python, *sweep],
        "mp.spawn per point": [python, "-m", SCRIPTS, "spawn", str(points)],
    }
    further = {
        "benchkit ranks=reuse": [python, *sweep, "ranks=reuse"],
        "loop in one group": [python, "-m", SCRIPTS, "loop", str(points)],
        "torchrun per point": [python, "-m", SCRIPTS, "torchrun", "5"],
        "Hydra -m, empty": [python, "-m", SCRIPTS, "hydra", "-m", f"seed=range({points})"],
    }
    if unknown := set(given.arms or ()) - {*arms, *further}:
        parser.error(f"--arms: no {', '.join(unknown)}; allowed are {', '.join((*arms, *further))}")
    if subprocess.run(["sh", "-c", "srun --nodes=2 true"], capture_output=True, check=False).returncode:
        del arms["srun, 2 agents"]
    if given.parts:
        arms |= further
    if given.arms:
        arms = {name: command for name, command in (arms | further).items() if name in ("benchkit", *given.arms)}
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(2):  # the second round shows how the machine drifted
        for name, command in arms.items():
            seconds[name].append(time_per_point(command, 5 if name == "torchrun per point" else points))
    print(f"{points} points of 2 gloo ranks, {ITERATIONS} iterations of 0.001 MiB each, all in")
    for name, each in seconds.items():
        ratio = mean(each) / mean(seconds["benchkit"])
        rounds = ", ".join(f"{value:.3f}" for value in each)
        print(f"{name:<22}{rounds} s per point: {ratio:.2f} times benchkit")
    if given.parts:
        print_parts(points)


def print_parts(points: int) -> None:
    """Print what each part of a point takes, in ms: medians over all points but the first two."""
    columns = {name: parts(points, f"ranks={name}") for name in ("fresh", "reuse")}
    print("\npart        " + "".join(f"{name:>9}" for name in columns) + "  [ms]")
    for part in columns["fresh"]:
        print(f"{part:<12}" + "".join(f"{1e3 * column[part]:9.2f}" for column in columns.values()))


def parts(points: int, *settings: str) -> Mapping[str, float]:
    """Return the seconds of each part of a point of one sweep."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = [sys.executable, *SWEEP, *settings]
        whole = [*sweep, f"seed=range({points})"]
        began = time.time()
        subprocess.run([*whole, f"hydra.sweep.dir={folder}/sweep"], check=True, capture_output=True)
        ended = time.time()
        found = [files.read(Path(folder) / "sweep" / str(number) / files.FILE_NAME) for number in range(points)]
        first, later = found[0], [record for record in found[2:] if not record.fresh]
        check = "hydra.sweeper.only_check=true"
        compose = min(time_per_point([*whole, check], 1) for _ in range(3)) - min(
            time_per_point([*sweep, check], 1) for _ in range(3)
        )
    figures = {name: median(sum(record.phases_s[phase] for phase in phases) for record in later)
               for name, phases in PARTS.items()}  # fmt: skip
    ranks = median(sum(record.phases_s[name] for name in PHASES) for record in later)
    whole_point = median(record.phases_s["total"] for record in later)
    steps = [at(after.started_at) - at(before.started_at) for before, after in pairwise(found[2:]) if not before.fresh]
    return {
        "compose": max(0.0, compose) / points,
        **figures,
        "record": whole_point - ranks,
        "line": median(steps) - whole_point,
        "all but measure": median(steps) - median(record.phases_s["measure"] for record in later),
        "measure": median(record.phases_s["measure"] for record in later),
        "to first fork": at(first.started_at) - began,
        "to first call": at(first.started_at) - began + sum(first.phases_s[name] for name in PHASES[:4]),
        "after last": ended - at(found[-1].finished_at or ""),
    }


PHASES = ("spawn", "init", "build", "verify", "measure", "verify_again", "exit")


def at(text: str) -> float:
    """Convert a time to seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    main()
