"""Who is where: who started this process beside how many others, and how many cores its ranks may use."""

import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LaunchContext:
    """How this process came to life: by which launcher, as which of how many processes.

    job: what the processes of one start share and no other start has; "" where the launcher gives no such thing.
    local: the launcher says that all processes are on this host.
    """

    by: str
    index: int
    count: int
    job: str = ""
    local: bool = False


@dataclass(frozen=True)
class LauncherEnv:
    """A launcher's environment variables: its sign, and what numbers and names its processes.

    local: how many of them are on this host; Slurm's is "2" on one node, but "1(x2)" on two.
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
"""In this order: Open MPI and MPICH start their daemons by srun inside an allocation, and srun may set PMI_* too."""


def detect_launcher(environment: Mapping[str, str] = os.environ) -> LaunchContext:
    """Reads from the environment who started this process; `plain` where nobody says otherwise."""
    for name, signs in LAUNCHERS.items():
        if signs.sign in environment:
            job = ".".join(environment[variable] for variable in signs.job if variable in environment)
            index, count = int(environment.get(signs.index, 0)), int(environment.get(signs.count, 1))
            local = environment.get(signs.local) == str(count)
            if not job and name == "mpich" and local:
                # MPICH names no job; on one host all its processes have one parent
                job = f"parent-{os.getppid()}"
            return LaunchContext(name, index, count, job, local)
    return LaunchContext("plain", 0, 1)


def node_name() -> str:
    """This node as its cluster calls it, else the host's name."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def boot_id() -> str:
    """What tells this host, since it started, from all others; its name where the kernel does not say."""
    return read_text("/proc/sys/kernel/random/boot_id") or socket.gethostname()


def namespace(kind: str) -> str:
    """What all processes share that see the same network ("net") or clock ("time") of the same running kernel."""
    try:
        inode = os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:  # no such namespaces here: one per host
        inode = 0
    return f"{boot_id()}-{inode}"


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_cores() -> int:
    """Cores this process may use: its affinity, cut to the cgroup's CPU quota where one is set."""
    cores = len(usable_cores())
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


def read_text(path: str) -> str:
    """The stripped content of a small system file, or "" where it cannot be read."""
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
