"""Whether the harness measures what a bare loop measures, and leaves the ranks alone while they do.

In the same two processes, blocks of three arms alternate in random order: a bare loop, the same bare loop again (how
well the machine repeats itself), and benchkit's measure(). The ratio of block medians is paired by round.

    python -m tests.perf.fidelity [--rounds 40]
"""

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchkit.statistics import median_interval, slowest_rank
from launch import ranks

SIZES = {"1 KiB": (2**8, 100), "1 MiB": (2**18, 50), "16 MiB": (2**22, 10)}
"""Elements of float32, and iterations of one block."""


def body(assignment: tuple[int, int, int]) -> dict[str, Any]:
    """One rank: the medians of every block of every arm, of the slowest rank."""
    import torch
    import torch.distributed as dist

    from benchkit.case import Case
    from benchkit.clocks import HostClock
    from benchkit.config import MeasureConfig
    from benchkit.measure import measure
    from benchkit.worker import Group

    index, port, rounds = assignment
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=index, world_size=2)
    group, order = Group(None, 2), random.Random(0)
    medians: dict[str, Any] = {}
    for size, (elements, iterations) in SIZES.items():
        source, buffer = torch.ones(elements), torch.empty(elements)
        reset, step = (lambda s=source, b=buffer: b.copy_(s)), (lambda b=buffer: dist.all_reduce(b))
        config = MeasureConfig("per_iteration", 1, 1, None, iterations, 1e9, 1, 1e9, 1.0)

        def bare(iterations: int = iterations, reset: Any = reset, buffer: Any = buffer) -> list[float]:
            samples = []
            for _ in range(iterations + 1):
                reset()
                dist.barrier()
                start = time.perf_counter()
                dist.all_reduce(buffer)
                samples.append(time.perf_counter() - start)
            return samples[1:]

        def harness(case: Case = Case(step=step, reset=reset), config: MeasureConfig = config) -> list[float]:  # noqa: B008
            [result] = measure(
                [case], config, clock=HostClock(), barrier=group.barrier, exchange=group.exchange, seed=0
            )
            return result.samples_s[index]

        arms = {"bare": bare, "again": bare, "harness": harness}
        medians[size] = {name: [] for name in arms}
        for name in arms:  # warm up
            arms[name]()
        for _ in range(rounds):
            for name in order.sample(list(arms), len(arms)):
                block = slowest_rank(group.exchange(arms[name]()))
                medians[size][name].append(float(np.median(block)))
    return medians


def ratio(above: list[float], below: list[float]) -> str:
    """The median of the paired ratios with its 95 % interval."""
    ratios = np.array(above) / np.array(below)
    low, high = median_interval(ratios) or (np.nan, np.nan)
    return f"{np.median(ratios):.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    ranks.start_fork_server(["torch", "torch.distributed", "benchkit.worker"])
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    began, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        outcome = ranks.run_ranks(
            "tests.perf.fidelity:body",
            [(index, store.port, rounds) for index in range(2)],
            environments=[{}, {}],
            folder=Path(folder),
            timeout_s=3600,
        )
    elapsed, used = time.perf_counter() - began, time.process_time() - used
    assert outcome.failure is None, outcome.failure
    print(f"{'size':8} {'bare median':>12}  {'harness / bare':24} {'bare / bare':24} ({rounds} rounds)")
    for size, arms in outcome.results[0].items():
        bare = f"{1e3 * np.median(arms['bare']):.3f} ms"
        print(f"{size:8} {bare:>12}  {ratio(arms['harness'], arms['bare']):24} {ratio(arms['again'], arms['bare']):24}")
    print(f"the agent used {used:.3f} s of CPU in {elapsed:.1f} s: {100 * used / elapsed:.2f} % of a core")


if __name__ == "__main__":
    main()
