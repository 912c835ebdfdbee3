"""Check that benchkit measures what a bare loop measures: real cases of every suite, in the same two processes.

Blocks of three arms alternate in random order: a bare loop, the same loop again (how well the machine
repeats itself), and benchkit. The ratio of block medians is paired by round.

    python -m perf.fidelity [--rounds 40]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchkit.statistics.intervals import median_interval
from tests.support.cli import ROOT

from perf.bare import OUTPUT, ROUNDS

SIZES = ("1KiB", "16KiB", "64KiB", "256KiB", "1MiB", "4MiB", "16MiB")
POINTS = (
    *(f"+suite=allreduce data_size={size}" for size in SIZES),
    *(f"+suite=collective collective={name} data_size=1MiB" for name in ("all_gather", "all_to_all", "send_recv")),
    "+suite=tp_columnwise m=512 n=512 k=512",
    "+suite=tp_rowwise m=512 n=512 k=512",
    "+suite=ring_attention seq_len=1024 strategies=[even,balanced]",
    "+suite=auto_shard workload=mlp_256x256x256x256",
    "+suite=matmul_lut sizes=[256] hardware.slowdown=1",
    "+suite=transformer model=tiny context_length=64 world_size=2 passes=[forward,train_step]",
)
"""Every suite; all-reduce over its sizes."""


def compared(point: str, rounds: int) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Yield the labels of each case of a point, and per arm its block medians in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "cases.jsonl"
        given = {
            "BENCHKIT_SUITES": "perf.bare",
            OUTPUT: str(output),
            ROUNDS: str(rounds),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "benchkit", *point.split(), "timeout_s=3600"]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **given}, capture_output=True, text=True, check=False
        )
        assert output.exists(), done.stdout + done.stderr
        for line in output.read_text().splitlines():
            found = json.loads(line)
            yield " ".join(map(str, found["labels"].values())), found["arms"]


def ratio(above: list[float], below: list[float]) -> str:
    """Return the median of the paired ratios with its 95 % interval."""
    ratios = np.array(above) / np.array(below)
    low, high = median_interval(ratios) or (np.nan, np.nan)
    return f"{np.median(ratios):.3f} [{low:.3f}, {high:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    print(f"{'point':78} {'bare':>10}  {'benchkit / bare':22} {'bare / bare':22} ({rounds} rounds)")
    for point in POINTS:
        for labels, arms in compared(point, rounds):
            name, bare = f"{point.removeprefix('+suite=')}  {labels}", f"{1e3 * np.median(arms['bare']):.3f} ms"
            told = ratio(arms["benchkit"], arms["bare"]), ratio(arms["again"], arms["bare"])
            print(f"{name:78} {bare:>10}  {told[0]:22} {told[1]:22}", flush=True)


if __name__ == "__main__":
    main()
