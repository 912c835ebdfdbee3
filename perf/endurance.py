"""Check that an agent does not leak over a long sweep: memory and open files after every hundredth point.

python -m perf.endurance [--points 5000]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.cli import ROOT

EVERY = 100


def resident_mb(pid: int) -> float:
    """Return the memory of a process in MB, including shared pages."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


def count_ended(folder: Path) -> int:
    """Return how many points have a folder whose successor has started."""
    return max(0, sum(1 for entry in os.scandir(folder) if entry.is_dir()) - 1) if folder.exists() else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=5000)
    points = parser.parse_args().points
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "benchkit", "+suite=allreduce", "-m", "data_size=0.001", "measure=fixed"]
        command += ["measure.max_iterations=1", "measure.mode=loop", "measure.calls_per_sample=1", "world_size=1"]
        command += [f"seed=range({points})", "hydra.sweep.dir=sweep"]
        process = subprocess.Popen(
            command, cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL
        )
        began_s, seen = time.monotonic(), 0
        print("points    seconds    agent [MB]    open files    threads", flush=True)
        while process.poll() is None:
            time.sleep(0.2)
            done = count_ended(Path(place) / "sweep")
            if done < seen + EVERY and not (seen == 0 and done >= 1):
                continue
            seen = max(1, done - done % EVERY)
            try:
                files = len(os.listdir(f"/proc/{process.pid}/fd"))
                threads = len(os.listdir(f"/proc/{process.pid}/task"))
                row = (seen, time.monotonic() - began_s, resident_mb(process.pid), files, threads)
            except OSError:
                break
            print("{:6d}{:11.1f}{:14.1f}{:14d}{:11d}".format(*row), flush=True)
        print(f"exit code {process.wait()} after {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
