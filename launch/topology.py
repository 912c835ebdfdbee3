"""Who is where: who started this process beside how many others, and how many cores its ranks may use."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Started:
    """How this process came to life: by which launcher, as which of how many processes."""

    by: str
    index: int
    count: int


LAUNCHERS = {
    "torchrun": ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"),
    "mpirun (Open MPI)": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    "srun": ("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    "mpirun (MPICH)": ("PMI_SIZE", "PMI_RANK", "PMI_SIZE"),
}
"""Per launcher the variable that gives it away, and those that number its processes; srun sets PMI_* as well."""


def started(environment: Mapping[str, str] = os.environ) -> Started:
    """Reads from the environment who started this process; alone where nobody says otherwise."""
    for name, (sign, index, count) in LAUNCHERS.items():
        if sign in environment:
            return Started(name, int(environment.get(index, 0)), int(environment.get(count, 1)))
    return Started("nobody", 0, 1)


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
