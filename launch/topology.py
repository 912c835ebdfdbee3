"""How this process was started, among how many others, and how many cores its ranks may use."""

import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LaunchContext:
    """The launcher that started this process, and this process's number.

    Attributes:
        by: name of the launcher; "plain" if there is none.
        index: number of this process.
        count: number of processes that the launcher started.
        job: what the processes of one start share and no other start has; "" if the launcher
            provides nothing of this kind.
        local: whether the launcher says that all processes are on this host.
    """

    by: str
    index: int
    count: int
    job: str = ""
    local: bool = False


@dataclass(frozen=True)
class LauncherEnv:
    """The environment variables of a launcher.

    Attributes:
        sign: shows by its presence that this launcher started the process.
        index: holds the number of this process.
        count: holds the number of processes.
        job: together they name the start.
        local: holds the number of processes on this host; Slurm's is "2" on one node, but "1(x2)"
            on two.
    """

    sign: str
    index: str
    count: str
    job: tuple[str, ...]
    local: str


LAUNCHERS = {
    "torchrun": LauncherEnv(
        "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE",
        ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"), "LOCAL_WORLD_SIZE",
    ),
    "openmpi": LauncherEnv(
        "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
        ("PMIX_NAMESPACE",), "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "mpich": LauncherEnv(
        "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE",
        ("SLURM_JOB_ID", "SLURM_STEP_ID"), "MPI_LOCALNRANKS",
    ),
    "srun": LauncherEnv(
        "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
        ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"), "SLURM_STEP_TASKS_PER_NODE",
    ),
}  # fmt: skip
"""Launchers in the order in which they are looked for.

Inside an allocation Open MPI and MPICH start their daemons by srun, and srun may set PMI_* too.
"""


def detect_launcher(environment: Mapping[str, str] = os.environ) -> LaunchContext:
    """Detects from the environment what started this process; `plain` if no launcher did."""
    for name, variables in LAUNCHERS.items():
        if variables.sign not in environment:
            continue
        job = ".".join(environment[part] for part in variables.job if part in environment)
        index = int(environment.get(variables.index, 0))
        count = int(environment.get(variables.count, 1))
        local = environment.get(variables.local) == str(count)
        if not job and name == "mpich" and local:
            # MPICH names no job, but on one host all its processes have the same parent.
            job = f"parent-{os.getppid()}"
        return LaunchContext(name, index, count, job, local)
    return LaunchContext("plain", 0, 1)


def node_name() -> str:
    """Returns the name that the cluster gives this node, else the host's name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def boot_id() -> str:
    """Returns an identifier of this boot of this host; the host's name if the kernel has none."""
    return read_text("/proc/sys/kernel/random/boot_id") or socket.gethostname()


def namespace(kind: str) -> str:
    """Returns an identifier of a namespace of this process in this running kernel.

    Processes share it if they see the same network ("net") or clock ("time"), for example.
    """
    try:
        inode = os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:  # without such namespaces there is one per host
        inode = 0
    return f"{boot_id()}-{inode}"


def usable_cores() -> list[int]:
    """Returns the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_cores() -> int:
    """Returns how many cores this process may use: its affinity, cut to the cgroup's CPU quota."""
    cores = len(usable_cores())
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


def cpu_quota() -> float | None:
    """Returns the cgroup's CPU quota in cores (version 2, then 1); None if there is no quota."""
    quota = "max"
    period = "100000"
    if limits := read_text("/sys/fs/cgroup/cpu.max"):
        quota, period = limits.split()
    elif limit := read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        quota = limit
        period = read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us") or period
    return None if quota in ("max", "-1") else int(quota) / int(period)


def read_text(path: str | Path) -> str:
    """Returns the stripped content of a small file; "" if it is not readable."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
