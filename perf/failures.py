"""Measure how soon all agents react: from the SIGKILL of a rank, or of an agent, to the failed point's record.

python -m perf.failures [--rounds 5]
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from datetime import datetime
from pathlib import Path

from tests.support.cli import Cli, wait_until

POINT = ["+suite=faulty", "fault=hang,none", "timeout_s=60", "measure.max_iterations=5", "world_size=6", "on_rank=2"]


def one_round(victim: str) -> tuple[float, float]:
    """Return the seconds from the kill to the record of the failed point, and to the ranks of the next one.

    Agent 1 of 3 is killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(Path(folder))
        processes = cli.agents(3, *POINT)
        latest = Path(folder) / "outputs" / "latest"
        logs = [latest / "0" / f"rank_{rank}.log" for rank in range(6)]
        assert wait_until(lambda: all(log.exists() and log.read_text() for log in logs))
        time.sleep(0.5)
        pid = processes[1].pid if victim == "agent" else rank_of(cli, 3)
        killed = time.time()
        os.kill(pid, signal.SIGKILL)
        for process in processes:
            process.communicate(timeout=60)
        failed, sound = (json.loads((latest / point / "record.json").read_text()) for point in ("0", "1"))
        assert (failed["status"], failed["error"]["host"], sound["status"]) == ("crash", "n1", "ok")
        told, began = (
            datetime.fromisoformat(text).timestamp() for text in (failed["finished_at"], sound["started_at"])
        )
        return told - killed, began - killed


def rank_of(cli: Cli, rank: int) -> int:
    """Return the process of a rank, by the open file of its log."""
    for pid in cli.processes():
        if os.readlink(f"/proc/{pid}/fd/1").endswith(f"/rank_{rank}.log"):
            return pid
    raise AssertionError(f"rank {rank} is not there")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("3 agents of 2 ranks each; seconds after the SIGKILL on agent 1, median (max)")
    for victim in ("rank", "agent"):
        rounds = [one_round(victim) for _ in range(options.rounds)]
        told, began = zip(*rounds, strict=True)
        print(
            f"a {victim} killed: record complete {statistics.median(told):.2f} ({max(told):.2f}), "
            f"next point begun {statistics.median(began):.2f} ({max(began):.2f})"
        )


if __name__ == "__main__":
    main()
