"""Compare the interleaved baseline and best case of every suite with the same isolated in fresh ranks.

    python -m perf.turns FOLDER [--repeat 7]

The last suite is made to show the effect: a case evicts the other's data. Print turns.md of FOLDER.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

BUDGET = ("measure.max_seconds=0.5", "measure.probe_seconds=0.05", "measure.alone=always")
SUITES = {
    "collective": ("+suite=allreduce", "data_size=64KiB"),
    "matmul_lut": ("+suite=matmul_lut", "sizes=[256,512]", "hardware.slowdown=1"),
    "transformer": ("+suite=transformer", "model=tiny", "context_length=64"),
    "ring_attention": ("+suite=ring_attention", "seq_len=512", "strategies=[even,zigzag,torch]"),
    "tp_columnwise": ("+suite=tp_columnwise", "m=1024", "n=256", "k=256"),
    "tp_rowwise": ("+suite=tp_rowwise", "m=1024", "n=256", "k=256"),
    "auto_shard": ("+suite=auto_shard", "workload=matmul_1024x1024x1024"),
    "evicting": ("--config-dir", "perf/conf", "+suite=evicting"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeat", type=int, default=7)
    given = parser.parse_args()
    python = [sys.executable, "-m"]
    variables = os.environ | {"BENCHKIT_SUITES": "perf.evicting"}
    for name, arguments in SUITES.items():
        if not (given.folder / name).exists():
            place = f"hydra.sweep.dir={given.folder / name}"
            command = [*python, "benchkit", "-m", *arguments, *BUDGET, f"repeat={given.repeat}", place]
            subprocess.run(command, check=False, env=variables, stdout=subprocess.DEVNULL)
    subprocess.run([*python, "analysis", given.folder], check=False, stdout=subprocess.DEVNULL)
    print((given.folder / "analysis" / "turns.md").read_text())


if __name__ == "__main__":
    main()
