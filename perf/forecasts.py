"""Compare the durations that --dry-run predicts for studies and sweeps with the measured ones.

    python -m perf.forecasts [--only NAME ...]

Each command is forecast in an empty folder, only by the cost model. Then a similar command runs there, of other
sizes, and the command is forecast again, by the records of the similar one. Then it runs. Times are of whole commands.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from tests.support.cli import ROOT

STUDIES = {
    "hetero_ring": ("seq_len=1024,2048 slowdown=1,4 max_seconds=15", "seq_len=512 slowdown=1,2 max_seconds=5"),
    "gt_scaling": ("sweep=auto_shard_quick", "sweep=auto_shard_quick workload=matmul_1024x1024x1024"),
    "cs336_allreduce": ("data_size=1,10,100", "data_size=4,50 compared_at=50 world_size=2,4"),
    "cs336_transformer": ("model=tiny,small context_length=128 trials=5", "model=tiny context_length=64 trials=3"),
    "ddlb": ("m=8192 iterations=300", "m=4096 iterations=50"),
}
"""By name: parameters of the forecast study, and of a similar one."""
SWEEPS = {
    "collective": ("collective=all_gather,broadcast data_size=1KiB,1,16", "collective=all_gather data_size=4,64"),
    "send_recv": (
        "suite=collective collective=send_recv data_size=[4B,1]",
        "suite=collective collective=send_recv data_size=[8B,4]",
    ),
    "matmul_lut": ("hardware.slowdown=1,2,10", "hardware.slowdown=1,4 sizes=[128,512]"),
    "ring_model": ("measure=quick", "measure=quick seq_len=512"),
    "tp_rowwise": ("m=2048 measure=quick", "m=1024 measure=quick"),
    "tp_columnwise": ("m=2048 measure=quick", "m=1024 measure=quick"),
    "compile": ("compiler=eager,default", "compiler=eager,default workload=pointwise"),
    "rank_speed": ("minutes=5", "minutes=5 memory_size=16 matmul_size=256"),
    "pair_matrix": ("world_size=4 minutes=5", "world_size=2 minutes=5"),
    "transformer": ("model=tiny parallel=ddp world_size=2", "model=tiny parallel=ddp world_size=2 batch_size=1"),
    "auto_shard": ("workload=mlp_1024x512x1024x512 measure=quick", "workload=mlp_512x512x512x512 measure=quick"),
}
SAID = re.compile(r"about (.+?), at most ([\d.hmins ]+)")
UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0}
WITHIN = 2.0  # the factor that a forecast is to be right within


@dataclass(frozen=True)
class Said:
    seconds: float
    most_s: float

    def ratio(self, taken_s: float) -> float:
        return self.seconds / taken_s

    def text(self, taken_s: float) -> str:
        bound = "held" if taken_s <= self.most_s else "EXCEEDED"
        return f"{self.seconds:8.0f} {self.ratio(taken_s):6.2f} {self.most_s:8.0f} {bound:>9}"


def command_of(name: str, words: str) -> list[str]:
    if name in STUDIES:
        return [f"study={name}", *words.split()]
    suite = next((word for word in words.split() if word.startswith("suite=")), f"suite={name}")
    return [f"+{suite}", *(word for word in words.split() if word != suite)]


def printed(folder: str, *words: str) -> str:
    program = [sys.executable, "-m", "benchkit", *words]
    done = subprocess.run(program, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode and "--dry-run" not in words:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def forecast(folder: str, command: Sequence[str]) -> Said:
    *_, (about, most) = SAID.findall(printed(folder, *command, "--dry-run"))
    return Said(seconds_of(about), seconds_of(most))


def seconds_of(duration: str) -> float:
    """Parse "2 h 5 min" or "4.2 s" to seconds."""
    words = duration.split()
    return sum(float(number) * UNITS[unit] for number, unit in zip(words[::2], words[1::2], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*STUDIES, *SWEEPS], default=[*STUDIES, *SWEEPS])
    chosen = parser.parse_args().only
    print(f"{'':18} {'taken':>7}  {'model alone':>34}  {'like records':>34}\n{'':18} {'[s]':>7}", end="")
    print(2 * f"  {'about':>8} {'ratio':>6} {'at most':>8} {'bound':>9}")
    ratios: dict[str, list[float]] = {"model alone": [], "like records": []}
    for name, (words, like) in (STUDIES | SWEEPS).items():
        if name not in chosen:
            continue
        command = command_of(name, words)
        with tempfile.TemporaryDirectory() as folder:
            alone = forecast(folder, command)
            printed(folder, *command_of(name, like))
            informed = forecast(folder, command)
            began_s = time.perf_counter()
            printed(folder, *command)
            taken_s = time.perf_counter() - began_s
        for basis, said in zip(ratios, (alone, informed), strict=True):
            ratios[basis].append(said.ratio(taken_s))
        print(f"{name:18} {taken_s:7.0f}  {alone.text(taken_s)}  {informed.text(taken_s)}", flush=True)
    for basis, found in ratios.items():
        near = sum(1 / WITHIN <= ratio <= WITHIN for ratio in found)
        average = exp(fmean(map(log, found)))
        print(f"{basis}: {near} of {len(found)} within a factor of {WITHIN:g}, geometric mean {average:.2f}")


if __name__ == "__main__":
    main()
