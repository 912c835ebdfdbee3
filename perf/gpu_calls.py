"""Count the calls of CUDA and NCCL of each rank of a point, on emulated GPUs.

    python -m perf.gpu_calls build/emulator [--gpus 8]

`make gpu` builds the emulator. Run sweeps of one point, of two, of three; the difference between a sweep and the
previous one is its last point. Calls are per rank: those of all processes over the number of GPUs. Times are not shown:
they would be the emulator's.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.support.cli import ROOT
from tests.support.emulator.build import environment

MEASURE = "measure=fixed", "measure.max_iterations=20"
LINES = {
    "all-reduce": ("+suite=allreduce", "data_size=0.0625,0.125,0.25,0.5"),
    "tp_columnwise": ("+suite=tp_columnwise", "n=128", "k=128", "m=128,256,384,512"),
    "ring_attention": ("+suite=ring_attention", "hardware.slowdown=1", "seq_len=128,256,384,512"),
}
"""A suite, and the key of four points in the last override."""
COUNTED = {
    "communicators of NCCL": "ncclCommInitRank",
    "allocations": "cudaMalloc",
}
PROCESSES, TO_GPU, TO_HOST = "processes that start CUDA", "KB to the GPU", "KB to the host"
COPY = re.compile(r"cudaMemcpyAsync (\d+) kind ([12])")


def calls_of(folder: Path) -> Counter[str]:
    """Return the calls of all processes of a sweep, by the names of COUNTED, and the bytes that were copied."""
    total: Counter[str] = Counter()
    for path in folder.glob("calls.*"):
        text = path.read_text()
        names = Counter(line.partition(" ")[0] for line in text.splitlines())
        total[PROCESSES] += "cudaSetDevice" in names
        for title, counted in COUNTED.items():
            total[title] += names[counted]
        for size, kind in COPY.findall(text):
            total[TO_GPU if kind == "1" else TO_HOST] += int(size) / 1e3
    return total


def sweeps(emulator: Path, gpus: int, suite: str, points: str, *more: str) -> Iterator[Counter[str]]:
    """Yield the calls of sweeps of the first point, of the first two, and so on."""
    key, _, values = points.partition("=")
    for count in range(1, 1 + len(values.split(","))):
        with tempfile.TemporaryDirectory() as folder:
            calls = {"EMULATED_CALLS": f"{folder}/calls", "XDG_CACHE_HOME": f"{folder}/cache"}
            variables = environment(emulator, gpus, **calls)
            variables["PYTHONPATH"] += f":{ROOT}"
            few = ",".join(values.split(",")[:count])
            line = (suite, f"{key}={few}", "hardware=cuda", f"world_size={gpus}", *MEASURE, *more, "-m")
            command = sys.executable, "-m", "benchkit", *line
            subprocess.run(command, cwd=folder, env=variables, check=True, capture_output=True)
            yield calls_of(Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("emulator", type=Path)
    parser.add_argument("--gpus", type=int, default=8)
    given = parser.parse_args()
    for name, (suite, *rest) in LINES.items():
        *settings, points = rest
        found = list(sweeps(given.emulator, given.gpus, suite, points, *settings))
        print(f"\n{name} on {given.gpus} GPUs: calls of a rank in points 1, 2, …, {len(found)}")
        for title in (PROCESSES, *COUNTED, TO_GPU, TO_HOST):
            row = [(after[title] - before[title]) / given.gpus for before, after in pairwise([Counter(), *found])]
            print(f"{title:<28}" + "".join(f"{value:12.4g}" for value in row))


if __name__ == "__main__":
    main()
