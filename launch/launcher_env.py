"""Detect the launcher, index and number of processes from environment variables."""

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

ALONE_VARIABLE = "BENCHKIT_ALONE"
"""Environment variable: measure in this process without others, whatever launcher started it."""


class LaunchError(Exception):
    """The launcher is ambiguous or unsupported; the message says why, and what to set."""


@dataclass(frozen=True)
class LaunchContext:
    """The launcher that started this process, its index and the number of processes.

    `job` identifies the start; "" if the launcher provides no identifier. `is_one_host`: the
    launcher reports that all processes are on this host.
    """

    launcher: str
    index: int
    num_processes: int
    job: str = ""
    is_one_host: bool = False


@dataclass(frozen=True)
class RankVariables:
    """The environment variables with the index and the number of a launcher's processes.

    A name is "" if the launcher has no such variable.

    Attributes:
        depth: nesting level, 0 for the innermost: a launcher of depth 0 may run inside any other.
    """

    depth: int
    index: str
    count: str

    def read(self, environment: Mapping[str, str]) -> tuple[int | None, int | None]:
        """Return index and count, None where not set; raise LaunchError for invalid values."""
        index, count = (
            whole_number(environment, name) if name in environment else None
            for name in (self.index, self.count)
        )
        if count is not None and (index or 0) >= count:
            raise LaunchError(f"{self.describe(environment)}: allowed is an index below the count")
        return index, count

    def describe(self, environment: Mapping[str, str]) -> str:
        names = [name for name in (self.index, self.count) if name in environment]
        return ", ".join(f"{name}={environment[name]}" for name in names)


@dataclass(frozen=True)
class LauncherEnv(RankVariables):
    """The environment variables of a supported launcher.

    Attributes:
        marker: variables that are all set by this launcher, separated by spaces.
        job_variables: variables that together identify the start; without any, the rendezvous is
            at MASTER_ADDR.
        local_size: variable with the number of processes on this host; Slurm's is "2" on one node,
            but "1(x2)" on two.
    """

    marker: str
    job_variables: tuple[str, ...] = ()
    local_size: str = ""

    def is_in(self, environment: Mapping[str, str]) -> bool:
        return all(name in environment for name in self.marker.split())


RESTARTS = "TORCHELASTIC_RESTART_COUNT"
LAUNCHERS = {
    "torchrun": LauncherEnv(
        0, "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID",
        ("TORCHELASTIC_RUN_ID", RESTARTS), "LOCAL_WORLD_SIZE",
    ),
    "openmpi": LauncherEnv(
        1, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
        ("PMIX_NAMESPACE",), "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "mpich": LauncherEnv(
        1, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS",
        ("SLURM_JOB_ID", "SLURM_STEP_ID"), "MPI_LOCALNRANKS",
    ),
    "pals": LauncherEnv(
        1, "PALS_RANKID", "PMI_SIZE", "PALS_APID", ("PALS_APID",), "PMI_LOCAL_SIZE",
    ),
    "jsrun": LauncherEnv(
        1, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "LSB_JOBID JSM_NAMESPACE_SIZE",
        ("LSB_JOBID", "PMIX_NAMESPACE"), "JSM_NAMESPACE_LOCAL_SIZE",
    ),
    "srun": LauncherEnv(
        2, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID",
        ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"), "SLURM_STEP_TASKS_PER_NODE",
    ),
    "flux": LauncherEnv(
        2, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_JOB_ID FLUX_JOB_SIZE", ("FLUX_JOB_ID",),
    ),
    "env": LauncherEnv(
        0, "RANK", "WORLD_SIZE", "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT", (), "LOCAL_WORLD_SIZE",
    ),
    "skypilot": LauncherEnv(
        3, "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", "SKYPILOT_TASK_ID", ("SKYPILOT_TASK_ID",),
    ),
    "indexed_job": LauncherEnv(  # of Kubernetes
        3, "JOB_COMPLETION_INDEX", "WORLD_SIZE", "JOB_COMPLETION_INDEX WORLD_SIZE MASTER_PORT",
    ),
}  # fmt: skip
"""Supported launchers in the order of detection, the innermost first.

`env` is the fallback for processes that are numbered by hand, or by Kubeflow's PyTorchJob, whose
numbers are of pods. Inside an allocation Open MPI and MPICH start their daemons by srun, and srun
may set PMI_* too.
"""
UNSUPPORTED_LAUNCHERS = (
    RankVariables(1, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    RankVariables(3, "PET_NODE_RANK", "PET_NNODES"),  # Kubeflow Trainer, for torchrun to read
    RankVariables(1, "PMIX_RANK", ""),
    RankVariables(1, "HOROVOD_RANK", "HOROVOD_SIZE"),
    *LAUNCHERS.values(),  # without their marker: RANK without torchrun's, for example
)
"""Launchers whose processes cannot form a group."""
PARTS = "NODE|HOST|MACHINE|POD|WORKER|TASK|REPLICA|GROUP|SLICE|PROC|RANK|WORLD|MPI"
INDEX = re.compile(
    rf"(?!.*LOCAL|.*ARRAY)(?:(?:NODE_)?RANK|NODE_(?:INDEX|ID)|_?(?P<by>\w+?)_"
    rf"(?:(?:{PARTS})_)?(?:RANK|INDEX|PROCNO|CURRENT_HOST|(?:{PARTS})_ID))"
)
COUNT = re.compile(
    rf"N(?:UM_)?NODES|NODE_COUNT|WORLD_SIZE|_?(?P<by>\w+?)_"
    rf"(?:(?:NUM|TOTAL|N)_?(?:{PARTS})S?|(?:{PARTS})S?_(?:SIZE|COUNT|NUM)|HOSTS|HOSTNAMES)"
)
"""Variable names of indices and counts of any other launcher.

An index and a count belong together if they begin with the same word, as LWS_WORKER_INDEX and
LWS_GROUP_SIZE, or both with none, as NODE_RANK and WORLD_SIZE. Few names match without such a word:
containers and scripts have a GROUP_ID and NUM_WORKERS of their own. Tasks of an array are separate
runs, and so are shards of a test run, whose names do not match (CI_NODE_INDEX, CI_NODE_TOTAL).
"""


def detect_launcher(environment: Mapping[str, str] = os.environ) -> LaunchContext:
    """Return the launch context by the environment; `plain` without a launcher.

    Never raises. Call require_launcher() before a measurement: it raises for contradictory
    variables.
    """
    if environment.get(ALONE_VARIABLE) == "1":
        return LaunchContext("plain", 0, 1)
    for name, variables in LAUNCHERS.items():
        if not variables.is_in(environment):
            continue
        try:
            index, count = variables.read(environment)
        except LaunchError:
            break
        index, count = index or 0, count or 1
        job = ".".join(environment[part] for part in variables.job_variables if part in environment)
        local = environment.get(variables.local_size) == str(count)
        if not job and name == "mpich" and local:
            # MPICH names no job, but on one host all its processes have the same parent.
            job = f"parent-{os.getppid()}"
        return LaunchContext(name, index, count, job, local)
    return LaunchContext("plain", 0, 1)


def num_hosts(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of hosts of this start; one per process if unknown."""
    context = detect_launcher(environment)
    variables = LAUNCHERS.get(context.launcher)
    local_size = re.match(r"\d+", environment.get(variables.local_size, "") if variables else "")
    return -(-context.num_processes // int(local_size[0] if local_size else 1))


def require_launcher(environment: Mapping[str, str] = os.environ) -> LaunchContext:
    """Return the launch context of the innermost launcher.

    Raise LaunchError if the launcher's variables contradict each other, or if the launcher is
    unsupported: each of its processes would measure as if it were the only one.
    """
    value = environment.get(ALONE_VARIABLE, "")
    if value not in ("", "0", "1"):
        raise LaunchError(f"{ALONE_VARIABLE}={value!r}: allowed are 0 and 1")
    if value != "1":
        try:
            require_consistent_launcher(environment)
        except LaunchError as error:
            advice = f"set {ALONE_VARIABLE}=1 to measure in this process alone"
            raise LaunchError(f"{error}; or {advice}") from None
    return detect_launcher(environment)


def require_first_start(environment: Mapping[str, str] = os.environ) -> None:
    """Raise LaunchError on a restart by torchrun, which restarts if a point fails."""
    if (count := environment.get(RESTARTS, "0")) not in ("", "0"):
        raise LaunchError(
            f"{RESTARTS}={count}: torchrun has started this before, and nothing is measured twice; "
            "allowed is --resume DIR, which goes on"
        )


def require_consistent_launcher(environment: Mapping[str, str]) -> None:
    detected = [launcher for launcher in LAUNCHERS.values() if launcher.is_in(environment)]
    positions = {launcher: launcher.read(environment) for launcher in detected}
    innermost = detected[0] if detected else None
    if innermost:
        index, count = positions[innermost]
        missing = innermost.count if index else innermost.index if (count or 1) > 1 else ""
        if missing and missing not in environment:
            raise LaunchError(f"{innermost.describe(environment)} without {missing}: set it too")
    for launcher in UNSUPPORTED_LAUNCHERS:
        if launcher == innermost or launcher.index not in environment:
            continue
        if innermost and launcher.depth > innermost.depth:
            continue
        index, count = launcher.read(environment)
        if not index and count in (None, 1):
            continue
        other_positions = [place for other, place in positions.items() if other != launcher]
        if any(index == place[0] and count in (None, place[1]) for place in other_positions):
            continue  # the same start under another name: srun sets PMI_* for its tasks
        if innermost:
            both = f"{innermost.describe(environment)} and {launcher.describe(environment)}"
            raise LaunchError(f"{both} differ: unset those that are left from another start")
        raise unsupported_launcher(launcher.describe(environment))
    if not innermost and (variables := unknown_launcher_variables(environment)):
        raise unsupported_launcher(variables)


def unsupported_launcher(variables: str) -> LaunchError:
    return LaunchError(
        f"{variables}: set by a launcher whose processes do not join; start them "
        "by torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    )


def unknown_launcher_variables(environment: Mapping[str, str]) -> str:
    """Return the variables of an unknown launcher that started several processes, or ""."""
    known_prefixes = {launcher.index.partition("_")[0] for launcher in UNSUPPORTED_LAUNCHERS}
    # numbers by the first word of a name, then by the variable as text
    indices, counts = defaultdict[str, dict[str, int]](dict), defaultdict[str, dict[str, int]](dict)
    for name, value in sorted(environment.items()):
        number = int(value) if is_number(value) else None
        text = name if number is None else f"{name}={value}"
        if match := INDEX.fullmatch(name):
            if number is not None or name.endswith("HOST"):
                indices[first_word(match)][text] = number or 0
        elif match := COUNT.fullmatch(name):
            counts[first_word(match)][text] = 1 + value.count(",") if number is None else number
    for prefix in counts:
        large_counts = {text: count for text, count in counts[prefix].items() if count > 1}
        largest = max(large_counts.values(), default=0)
        valid_indices = [text for text, index in indices[prefix].items() if index < largest]
        if valid_indices and prefix not in known_prefixes:
            return ", ".join([*valid_indices, *large_counts])
    return ""


def first_word(name: re.Match[str]) -> str:
    return (name["by"] or "").partition("_")[0]


def is_number(text: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", text) is not None


def whole_number(environment: Mapping[str, str], name: str) -> int:
    value = environment[name]
    if not is_number(value):
        raise LaunchError(f"{name}={value!r}: allowed is a whole number; set it, or unset it")
    return int(value)


def allocation_remark(environment: Mapping[str, str] = os.environ) -> str:
    """Return a line for a single process of a shell or script in a Slurm allocation, else ""."""
    job = environment.get("SLURM_JOB_ID")
    if not job or detect_launcher(environment).launcher != "plain":
        return ""
    return f"inside Slurm job {job}, alone; srun starts one agent per task"
