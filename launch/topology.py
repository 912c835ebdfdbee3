"""Who is where: how many ranks this machine runs, and how many cores each may use."""

import math
import os
from pathlib import Path


def available_cores() -> int:
    """Cores this process may use: its affinity, cut to the cgroup's CPU quota where one is set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


def cpu_quota() -> float | None:
    """The cgroup's CPU quota in cores (version 2, then 1), or None where there is none."""
    quota, period = "max", "100000"
    if limits := read_text("/sys/fs/cgroup/cpu.max"):
        quota, period = limits.split()
    elif limit := read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        quota, period = limit, read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us") or period
    return None if quota in ("max", "-1") else int(quota) / int(period)


def threads_per_rank(local_world_size: int) -> int:
    """An equal share of the cores for each rank of this machine, at least one."""
    return max(1, available_cores() // local_world_size)


def read_text(path: str) -> str:
    """The stripped content of a small system file, or "" where it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
