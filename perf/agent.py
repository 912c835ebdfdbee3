"""Measure what the agent uses while ranks measure: CPU time, wake-ups and memory.

    python -m perf.agent [--seconds 20] [--ranks 2,64]

The agent is watched from its first sample to the last but one, in fresh ranks and in reused ranks, without a
terminal and on one, where progress is shown.
"""

import argparse
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(process: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def status(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def wake_ups(process: int) -> int:
    """Return how often all threads of a process have waited and been woken so far."""
    threads = Path(f"/proc/{process}/task").iterdir()
    texts = [(thread / "status").read_text() for thread in threads]
    return sum(int(text.split("voluntary_ctxt_switches:")[1].split()[0]) for text in texts)


def drained(terminal: int) -> None:
    """Read the output of a terminal until its other end closes."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        return


def watched(ranks: int, use: str, on_terminal: bool, seconds: float) -> str:
    """Return a row of the table."""
    start_s = 5 + 0.5 * ranks  # the ranks start and verify
    measure_s = seconds + 2 * start_s
    with tempfile.TemporaryDirectory() as folder:
        sweep = (
            "+suite=allreduce", "-m", "data_size=0.25", f"world_size={ranks}", f"ranks={use}", "threads_per_rank=1",
            "seed=1,2", "measure=fixed", "measure.max_iterations=1000000", f"measure.max_seconds={measure_s}",
            "measure.mode=loop", "timeout_s=1200", f"hydra.sweep.dir={folder}/s",
        )  # fmt: skip
        ours, theirs = pty.openpty()
        output = theirs if on_terminal else subprocess.DEVNULL
        process = subprocess.Popen([sys.executable, "-m", "benchkit", *sweep], stdout=output, stderr=output)
        os.close(theirs)
        threading.Thread(target=drained, args=(ours,), daemon=True).start()
        second = Path(folder, "s", "1", "record.json")
        while not second.exists():  # the record of a point that runs
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(start_s)
        before = cpu_s(process.pid), wake_ups(process.pid)
        time.sleep(seconds)
        after = cpu_s(process.pid), wake_ups(process.pid)
        memory = int(status(process.pid)["VmRSS"].split()[0]) / 1024
        assert process.wait() == 0
        os.close(ours)
    share = (after[0] - before[0]) / seconds
    woken = (after[1] - before[1]) / seconds
    return f"| {ranks} | {use} | {'yes' if on_terminal else 'no'} | {100 * share:.2f} | {woken:.1f} | {memory:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--ranks", default="2,64")
    given = parser.parse_args()
    print(
        "| ranks | processes | terminal | CPU [% of a core] | wake-ups per s | memory [MB] |\n|---|---|---|---|---|---|"
    )
    for ranks in map(int, given.ranks.split(",")):
        for use in ("fresh", "reuse"):
            for on_terminal in (False, True):
                print(watched(ranks, use, on_terminal, given.seconds), flush=True)


if __name__ == "__main__":
    main()
