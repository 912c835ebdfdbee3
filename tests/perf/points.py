"""What a point costs: 50 points of a sweep, all in, beside a plain mp.spawn script that measures the same points.

Once with this process as the only agent, once inside one allocation of two agents: torchrun's, and Slurm's where
srun works here.

python -m tests.perf.points [--points 50]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.support.cli import ROOT

ITERATIONS, WARMUP, ELEMENTS = 20, 5, 262


def spawned_rank(rank: int, port: int, path: str) -> None:
    """What a careful user writes by hand: join, warm up, time, gather, write."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    buffer, samples = torch.ones(ELEMENTS), []
    for iteration in range(WARMUP + ITERATIONS):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(buffer)
        if iteration >= WARMUP:
            samples.append(time.perf_counter() - start)
    gathered = [None, None]
    dist.all_gather_object(gathered, samples)
    if rank == 0:
        Path(path).write_text(json.dumps(gathered))
    dist.destroy_process_group()


def spawn_script(points: int) -> None:
    """The script's parent: one mp.spawn per point, as the hand-made benchmarks do."""
    with tempfile.TemporaryDirectory() as folder:
        for point in range(points):
            mp.spawn(spawned_rank, args=(20000 + point, f"{folder}/{point}.json"), nprocs=2)


def timed(command: list[str]) -> float:
    """Wall seconds of a command, from its start to its end, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": folder}
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--spawn-script", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.spawn_script:
        return spawn_script(options.points)
    sweep = ["-m", "benchkit", "+suite=allreduce", "-m", "data_size=0.001", "measure=fixed"]
    sweep += [f"measure.max_iterations={ITERATIONS}", f"seed=range({options.points})"]
    sweep += ["measure.mode=loop"]  # one case per point, as the script has
    script = ["-m", "tests.perf.points", "--spawn-script", "--points", str(options.points)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    arms = {
        "benchkit": [sys.executable, *sweep],
        "torchrun, 2 agents": [sys.executable, *torchrun, *sweep],
        "srun, 2 agents": ["srun", "--nodes=2", sys.executable, *sweep],
        "mp.spawn script": [sys.executable, *script],
    }
    if subprocess.run(["sh", "-c", "srun --nodes=2 true"], capture_output=True, check=False).returncode:
        del arms["srun, 2 agents"]
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(2):  # the second round shows how the machine drifted
        for name, command in arms.items():
            seconds[name].append(timed(command) / options.points)
    print(f"{options.points} points of 2 gloo ranks, {ITERATIONS} iterations of 0.001 MiB each, all in")
    for name, each in seconds.items():
        ratio = statistics.mean(each) / statistics.mean(seconds["benchkit"])
        rounds = ", ".join(f"{value:.3f}" for value in each)
        print(f"{name:<20}{rounds} s per point: {ratio:.2f} times benchkit")


if __name__ == "__main__":
    main()
