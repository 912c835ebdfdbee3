"""Hand-written scripts of a careful user that measure the points of perf.points."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hydra
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

ITERATIONS, WARMUP, ELEMENTS = 20, 5, 262


def join(rank: int, port: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)


def measure(rank: int, path: str) -> None:
    """Warm up, time, gather and write one point."""
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


def one_point(rank: int, port: int, path: str) -> None:
    join(rank, port)
    measure(rank, path)
    dist.destroy_process_group()


def all_points(rank: int, folder: str, points: int) -> None:
    join(rank, 20000)
    for point in range(points):
        measure(rank, f"{folder}/{point}.json")
    dist.destroy_process_group()


def under_torchrun(path: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    measure(dist.get_rank(), path)
    dist.destroy_process_group()


@hydra.main(config_path=None, version_base="1.3")
def empty(config: object) -> None:
    """Do nothing, once per point."""


def main() -> None:
    what = sys.argv.pop(1)
    if what == "hydra":
        sys.argv = [sys.argv[0], *(f"+{each}" if each.startswith("seed") else each for each in sys.argv[1:])]
        return empty()
    if what == "rank":
        return under_torchrun(sys.argv[1])
    points = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        if what == "loop":
            return mp.spawn(all_points, args=(folder, points), nprocs=2)
        for point in range(points):
            path = f"{folder}/{point}.json"
            if what == "spawn":
                mp.spawn(one_point, args=(20000 + point, path), nprocs=2)
            else:
                torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
                command = [sys.executable, *torchrun, "-m", "perf.points_scripts", "rank", path]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
