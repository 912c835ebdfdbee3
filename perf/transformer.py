"""Compare forward and backward of our network with Hugging Face's Llama of the same sizes, in one job, interleaved.

python -m perf.transformer [--model small] [--samples 30]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchkit.record import files
from benchkit.statistics.samples import slowest_rank
from benchkit.statistics.summary import paired_speedup
from tests.support.cli import ROOT


def compare(folder: Path, model: str, samples: int) -> str:
    """Run the job; return the speedup of ours with its 95 % interval."""
    command = [
        sys.executable, "-m", "benchkit", "--config-dir", str(ROOT / "tests" / "conf"), "+suite=llama",
        f"model={model}", f"measure.max_iterations={samples}", "hydra.sweep.dir=here",
    ]  # fmt: skip
    environment = {**os.environ, "BENCHKIT_SUITES": "tests.support.llama", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    ours, theirs = files.read(folder / "here" / "0" / "record.json").cases
    times = [statistics.median(slowest_rank(case.samples_s)) for case in (ours, theirs)]
    ratio, low, high, *_ = paired_speedup(theirs.samples, ours.samples)
    interval = f" [{low:.3f}, {high:.3f}]" if low is not None else ""
    return f"{model}: ours {times[0]:.3f} s, Llama {times[1]:.3f} s; Llama / ours {ratio:.3f}{interval}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="small")
    parser.add_argument("--samples", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(compare(Path(folder), options.model, options.samples))


if __name__ == "__main__":
    main()
