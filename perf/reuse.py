"""Compare identical points in reused ranks with fresh ranks, in pairs whose order changes halfway.

    python -m perf.reuse [--pairs 30]

Each pair is two neighbouring points of one sweep. The ratio is that of their medians, and its interval is that of the
signed ranks of all pairs.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from benchkit.record import files
from benchkit.record.record import Record
from benchkit.statistics.rank_tests import SignedRank, log_ratios

BUDGET = ("measure=fixed", "measure.max_iterations=200", "measure.max_seconds=1", "timeout_s=120")
WORKLOADS = {
    "all-reduce 1 KiB": ("+suite=allreduce", "data_size=1KiB"),
    "all-reduce 1 MiB": ("+suite=allreduce", "data_size=1MiB"),
    "all-reduce 64 MiB": ("+suite=allreduce", "data_size=64MiB"),
    "product 512 x 512 x 512": ("+suite=matmul_lut", "sizes=[512]", "hardware.slowdown=1"),
}


def measured(arguments: tuple[str, ...], pairs: int, order: str) -> list[Record]:
    """Return the records of a sweep of pairs, and of one before, without reused ranks yet."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = [*arguments, *BUDGET, f"seed=range({pairs + 1})", f"ranks={order}", f"hydra.sweep.dir={folder}"]
        command = [sys.executable, "-m", "benchkit", "-m", *sweep]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return [files.read(path) for path in Path(folder).glob("*/record.json")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs // 2
    print("workload                 reused [ms]  fresh [ms]  reused / fresh          pairs")
    for name, arguments in WORKLOADS.items():
        times: dict[str, list[float]] = {"reuse": [], "fresh": []}
        for order in ("fresh,reuse", "reuse,fresh"):
            found = {(each.config["ranks"], each.config["seed"]): each for each in measured(arguments, pairs, order)}
            for ranks, seconds in times.items():
                seconds += [found[ranks, seed].cases[0].typical_s for seed in range(1, pairs + 1)]
        reused, fresh = (np.array(times[ranks]) for ranks in ("reuse", "fresh"))
        test = SignedRank(log_ratios(fresh, reused))
        low, high = np.exp(test.interval(0.05))
        medians = f"{1e3 * np.median(reused):11.4g}  {1e3 * np.median(fresh):10.4g}"
        interval = f"{np.exp(test.estimate):.3f} [{low:.3f}, {high:.3f}]"
        print(f"{name:24} {medians}  {interval:22}  {test.num_values:5}", flush=True)


if __name__ == "__main__":
    main()
