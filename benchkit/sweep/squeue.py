"""What Slurm says about the job that this process runs in, and what the end of a job means."""

import contextlib
import math
import os
import subprocess

SLURM_ENDINGS = {
    "BOOT_FAIL": "crash", "CANCELLED": "cancelled", "COMPLETED": "error", "DEADLINE": "timeout",
    "FAILED": "crash", "NODE_FAIL": "crash", "OUT_OF_MEMORY": "oom", "PREEMPTED": "preempted",
    "TIMEOUT": "timeout",
}  # fmt: skip
"""Status of a point that a job left without a result, by Slurm's state for the end of the job."""


def slurm_says() -> tuple[str, float | None]:
    """Asks Slurm for the state of this job and the time that is left to it.

    Returns:
        Slurm's state, "" outside of Slurm; and seconds, None if there is no limit. If Slurm does
        not answer, the job is taken to be running, with infinite time.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        return "", None
    command = ["squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T %l %M"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        word, limit, used = done.stdout.split()
        if limit == "UNLIMITED":
            return word, None
        return word, float(in_seconds(limit) - in_seconds(used))
    return "RUNNING", math.inf


def in_seconds(text: str) -> int:
    """Converts Slurm's [days-][[hours:]minutes:]seconds to seconds."""
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in reversed(clock.split(":"))]
    of_day = sum(part * unit for part, unit in zip(parts, (1, 60, 3600), strict=False))
    return 86400 * int(days or 0) + of_day
