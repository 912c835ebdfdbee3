"""Time one all-reduce by three estimators, by a plain script and by benchkit, several interleaved runs of each.

    python -m perf.small_messages [--data-size 1] [--runs 6]

The script is independent of benchkit: two processes, gloo, a barrier before each call, or 20 calls between two
barriers. Compare with `osu_allreduce -m BYTES:BYTES -f`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests.support.cli import ROOT

SAMPLES, LOOPS, CALLS, WARMUP = 1000, 100, 20, 50
FIGURES = ("median of the slowest rank", "OSU mean", "mean back to back")


def rank_main(rank: int, folder: str, data_size: float) -> None:
    """Run what a careful user writes by hand."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    buffer, samples, loops = torch.zeros(round(data_size * 2**18)), [], []
    for _ in range(WARMUP):
        dist.all_reduce(buffer)
    for _ in range(SAMPLES):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(buffer)
        samples.append(time.perf_counter() - start)
    for _ in range(LOOPS):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(CALLS):
            dist.all_reduce(buffer)
        loops.append((time.perf_counter() - start) / CALLS)
    gathered = [None, None]
    dist.all_gather_object(gathered, (samples, loops))
    if rank == 0:
        Path(folder, "samples.json").write_text(json.dumps(gathered))
    dist.barrier()
    dist.destroy_process_group()


def by_script(data_size: float) -> tuple[float, ...]:
    """Return FIGURES in seconds, of one run of the script."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, args=(folder, data_size), nprocs=2)
        ranks = json.loads(Path(folder, "samples.json").read_text())
    return figures(*([each[index] for each in ranks] for index in range(2)))


def figures(samples: Sequence[Sequence[float]], loops: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return FIGURES of single calls and of calls back to back, both [rank][sample] in seconds per call."""
    return (
        statistics.median(map(max, zip(*samples, strict=True))),
        statistics.mean(map(statistics.mean, samples)),
        statistics.mean(map(statistics.mean, loops)),
    )


def by_benchkit(data_size: float) -> tuple[float, ...]:
    """Return FIGURES in seconds, of the command of the README."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchkit", "+suite=allreduce", f"data_size={data_size}", "threads_per_rank=1"]
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": folder}
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment)
        cases = json.loads((Path(folder) / "outputs" / "latest" / "0" / "record.json").read_text())["cases"]
    return figures(*(case["samples_s"] for case in cases))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-size", type=float, default=1.0, help="MiB")
    parser.add_argument("--runs", type=int, default=6)
    options = parser.parse_args()
    arms = {"script": by_script, "benchkit": by_benchkit}
    found = {name: [] for name in arms}
    for _ in range(options.runs):
        for name, run in arms.items():
            found[name].append(run(options.data_size))
    print(f"{options.data_size:g} MiB, ms: median of {options.runs} runs (least to most)")
    for name, runs in found.items():
        columns = zip(FIGURES, zip(*runs, strict=True), strict=True)
        print(f"{name:9}", *(
            f"  {figure} {1e3 * statistics.median(values):.3f} ({1e3 * min(values):.3f} to {1e3 * max(values):.3f})"
            for figure, values in columns
        ))  # fmt: skip


if __name__ == "__main__":
    main()
