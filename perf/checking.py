"""Measure the cost of checking the points of a sweep before the first one runs.

    python -m perf.checking [--points 100,1000,10000]

Each sweep is composed and checked twice, values that vary first and groups that vary too next: CPU seconds and
the largest memory of the process, and wall seconds. The check of one point measures the start of Python and Hydra.
"""

import argparse
import os
import subprocess
import sys
import time

ARMS = {
    "values": ("+suite=allreduce", "data_size=0.001", "seed=range({})"),
    "values and groups": ("+suite=collective", "collective=all_reduce,broadcast", "dtype=float32,int32",
                          "measure=fixed,quick", "seed=range({})"),
}  # fmt: skip


def checked(arguments: tuple[str, ...], points: int) -> tuple[float, float, float]:
    """Return CPU seconds, wall seconds and MB of one check."""
    points //= 2 ** sum("," in argument for argument in arguments)
    settings = [argument.format(max(1, points)) for argument in arguments]
    command = [sys.executable, "-m", "benchkit", "-m", *settings, "hydra.sweeper.only_check=true"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", default="1,100,1000,10000")
    sizes = [int(each) for each in parser.parse_args().points.split(",")]
    print("| varies | points | CPU [s] | wall [s] | memory [MB] |\n|---|---|---|---|---|")
    for name, arguments in ARMS.items():
        for points in sizes:
            best = min(checked(arguments, points) for _ in range(3))
            print(f"| {name} | {points:,} | {best[0]:.2f} | {best[1]:.2f} | {best[2]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
