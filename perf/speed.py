"""Compare the speed of this checkout with an older one: its start, a dry run, points and a report, interleaved.

    python -m perf.speed OLD_CHECKOUT [--rounds 7] [--only NAME ...]

CPU and wall seconds, medians over the rounds; the ratio new / old is the median of those of the rounds. Where others
use the machine, the ratio of CPU seconds counts. Ranks are no children that a process waits for, so points are
compared by wall seconds.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchkit.statistics.intervals import median_interval
from tests.support.cli import ROOT

from perf.analysis_scaling import write_records

POINTS, RECORDS = 20, 1000
SWEEP = ("benchkit", "+suite=allreduce", "-m", "data_size=1KiB", "world_size=2", "measure=fixed",
         "measure.max_iterations=20", f"seed=range({POINTS})")  # fmt: skip
COMMANDS = {
    "start": ("benchkit", "--version"),
    "dry run": (*SWEEP, "--dry-run"),
    f"{POINTS} points": SWEEP,
    f"report of {RECORDS:,} records": ("analysis", "records", "--output-dir", "report"),
}


def time_command(checkout: Path, folder: Path, arguments: tuple[str, ...]) -> tuple[float, float]:
    """Return CPU and wall seconds of a command, from its start to its end, without caches of earlier ones."""
    for name in ("cache", "report", "outputs"):
        shutil.rmtree(folder / name, ignore_errors=True)
    variables = {"PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", *arguments]
    with (folder / "printed").open("w") as printed:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | variables, stdout=printed, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
        took_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (folder / "printed").read_text()
    return used.ru_utime + used.ru_stime, took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=tuple(COMMANDS), default=tuple(COMMANDS))
    given = parser.parse_args()
    checkouts = {"old": given.old.resolve(), "new": ROOT}
    print("| | old CPU, wall [s] | new CPU, wall [s] | ratio CPU | ratio wall |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "records").mkdir()
        write_records(folder / "records", RECORDS, own_seeds=False)
        for name in given.only:
            seconds: dict[str, list[tuple[float, float]]] = {each: [] for each in checkouts}
            for number in range(given.rounds):
                for each in sorted(checkouts, reverse=number % 2 == 0):
                    seconds[each].append(time_command(checkouts[each], folder, COMMANDS[name]))
            old, new = (np.array(seconds[each]) for each in ("old", "new"))
            medians = [f"{cpu:.2f}, {wall:.2f}" for cpu, wall in (np.median(old, 0), np.median(new, 0))]
            ratios = [ratio(old[:, column], new[:, column]) for column in (0, 1)]
            print("| " + " | ".join([name, *medians, *ratios]) + " |", flush=True)


def ratio(old: np.ndarray, new: np.ndarray) -> str:
    """Return the median of the ratios of the rounds, with its 95 % interval if there are enough."""
    interval = median_interval(new / old)
    return f"{np.median(new / old):.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


if __name__ == "__main__":
    main()
