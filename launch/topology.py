"""How this process was started, among how many others, and how many cores its ranks may use."""

import glob
import math
import os
import re
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path

ROOT = Path("/")
ALONE_VARIABLE = "BENCHKIT_ALONE"
"""Environment variable that makes a process measure alone, whatever started it."""


class LaunchError(Exception):
    """What started this process is in doubt; the message says why, and what to set."""


@dataclass(frozen=True)
class LaunchContext:
    """What started this process, and its number.

    `job` is what the processes of one start share and no other start has; "" if the launcher
    provides none. `local`: the launcher says that all processes are on this host.
    """

    by: str
    index: int
    count: int
    job: str = ""
    local: bool = False


@dataclass(frozen=True)
class Numbering:
    """The environment variables in which a launcher numbers its processes; "" for none.

    Attributes:
        depth: how far out the launcher usually stands; one of depth 0 may run inside any other.
    """

    depth: int
    index: str
    count: str

    def read(self, environment: Mapping[str, str]) -> tuple[int | None, int | None]:
        """Return index and count, None where not given; raise LaunchError where they are none."""
        index, count = (
            whole_number(environment, name) if name in environment else None
            for name in (self.index, self.count)
        )
        if count is not None and (index or 0) >= count:
            raise LaunchError(f"{self.shown(environment)}: allowed is an index below the count")
        return index, count

    def shown(self, environment: Mapping[str, str]) -> str:
        names = [name for name in (self.index, self.count) if name in environment]
        return ", ".join(f"{name}={environment[name]}" for name in names)


@dataclass(frozen=True)
class LauncherEnv(Numbering):
    """The environment variables of a launcher whose processes join.

    Its variables in `sign` are all there. `job` together name the start; without one the processes
    meet at MASTER_ADDR. `local` holds the number of processes on this host; Slurm's is "2" on one
    node, but "1(x2)" on two.
    """

    sign: str
    job: tuple[str, ...] = ()
    local: str = ""

    def is_in(self, environment: Mapping[str, str]) -> bool:
        return all(name in environment for name in self.sign.split())


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
"""Launchers in the order in which they are looked for, the innermost first.

`env` is the last resort, for processes that are numbered by hand, or by Kubeflow's PyTorchJob,
whose numbers are of pods. Inside an allocation Open MPI and MPICH start their daemons by srun, and
srun may set PMI_* too.
"""
UNJOINED = (
    Numbering(1, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    Numbering(3, "PET_NODE_RANK", "PET_NNODES"),  # Kubeflow Trainer, for torchrun to read
    Numbering(1, "PMIX_RANK", ""),
    Numbering(1, "HOROVOD_RANK", "HOROVOD_SIZE"),
    *LAUNCHERS.values(),  # where the sign is missing: RANK without torchrun's, for example
)
"""Launchers whose processes do not join."""
PARTS = "NODE|HOST|MACHINE|POD|WORKER|TASK|REPLICA|GROUP|SLICE|PROC|RANK|WORLD|MPI"
INDEX = re.compile(
    rf"(?!.*LOCAL|.*ARRAY)(?:(?:NODE_)?RANK|NODE_(?:INDEX|ID)|_?(?P<by>\w+?)_"
    rf"(?:(?:{PARTS})_)?(?:RANK|INDEX|PROCNO|CURRENT_HOST|(?:{PARTS})_ID))"
)
COUNT = re.compile(
    rf"N(?:UM_)?NODES|NODE_COUNT|WORLD_SIZE|_?(?P<by>\w+?)_"
    rf"(?:(?:NUM|TOTAL|N)_?(?:{PARTS})S?|(?:{PARTS})S?_(?:SIZE|COUNT|NUM)|HOSTS|HOSTNAMES)"
)
"""Names by which any other launcher numbers processes, and counts them.

LWS_WORKER_INDEX and LWS_GROUP_SIZE belong together, as they begin with the same word; NODE_RANK and
WORLD_SIZE, as they begin with none. Few names count without such a word: containers and scripts
have a GROUP_ID and NUM_WORKERS of their own. Tasks of an array measure on their own. So do the
shards of a test run, which are counted otherwise (CI_NODE_INDEX, CI_NODE_TOTAL).
"""


def detect_launcher(environment: Mapping[str, str] = os.environ) -> LaunchContext:
    """Return what started this process by its environment; `plain` without a launcher.

    It never fails; what is about to measure calls require_launcher() first.
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
        job = ".".join(environment[part] for part in variables.job if part in environment)
        local = environment.get(variables.local) == str(count)
        if not job and name == "mpich" and local:
            # MPICH names no job, but on one host all its processes have the same parent.
            job = f"parent-{os.getppid()}"
        return LaunchContext(name, index, count, job, local)
    return LaunchContext("plain", 0, 1)


def num_hosts(environment: Mapping[str, str] = os.environ) -> int:
    """Return over how many hosts this start is spread: one per process where nothing says it."""
    started = detect_launcher(environment)
    variables = LAUNCHERS.get(started.by)
    here = re.match(r"\d+", environment.get(variables.local, "") if variables else "")
    return -(-started.count // int(here[0] if here else 1))


def require_launcher(environment: Mapping[str, str] = os.environ) -> LaunchContext:
    """Return what started this process; raise LaunchError where that is in doubt.

    The innermost launcher counts. Without this check, each process of a launcher that benchkit
    does not join would measure on its own, as if it were the only one.
    """
    alone = environment.get(ALONE_VARIABLE, "")
    if alone not in ("", "0", "1"):
        raise LaunchError(f"{ALONE_VARIABLE}={alone!r}: allowed are 0 and 1")
    if alone != "1":
        try:
            refuse_doubts(environment)
        except LaunchError as error:
            advice = f"set {ALONE_VARIABLE}=1 to measure in this process alone"
            raise LaunchError(f"{error}; or {advice}") from None
    return detect_launcher(environment)


def require_first_start(environment: Mapping[str, str] = os.environ) -> None:
    """Raise LaunchError where torchrun starts again: to it a point that fails is a failed start."""
    if (count := environment.get(RESTARTS, "0")) not in ("", "0"):
        raise LaunchError(
            f"{RESTARTS}={count}: torchrun has started this before, and nothing is measured twice; "
            "allowed is --resume DIR, which goes on"
        )


def refuse_doubts(environment: Mapping[str, str]) -> None:
    joined = [each for each in LAUNCHERS.values() if each.is_in(environment)]
    places = {each: each.read(environment) for each in joined}
    innermost = joined[0] if joined else None
    if innermost:
        index, count = places[innermost]
        missing = innermost.count if index else innermost.index if (count or 1) > 1 else ""
        if missing and missing not in environment:
            raise LaunchError(f"{innermost.shown(environment)} without {missing}: set it too")
    for each in UNJOINED:
        if each == innermost or each.index not in environment:
            continue
        if innermost and each.depth > innermost.depth:
            continue
        index, count = each.read(environment)
        if not index and count in (None, 1):
            continue
        others = [place for other, place in places.items() if other != each]
        if any(index == place[0] and count in (None, place[1]) for place in others):
            continue  # the same start under another name: srun sets PMI_* for its tasks
        if innermost:
            both = f"{innermost.shown(environment)} and {each.shown(environment)}"
            raise LaunchError(f"{both} differ: unset those that are left from another start")
        raise unjoined(each.shown(environment))
    if not innermost and (shown := numbered_by_others(environment)):
        raise unjoined(shown)


def unjoined(variables: str) -> LaunchError:
    return LaunchError(
        f"{variables}: set by a launcher whose processes do not join; start them "
        "by torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    )


def numbered_by_others(environment: Mapping[str, str]) -> str:
    """Return the variables of a launcher outside the tables that started several processes."""
    known = {each.index.partition("_")[0] for each in UNJOINED}
    # of the launchers, by the first words of their names
    indices, counts = defaultdict[str, dict[str, int]](dict), defaultdict[str, dict[str, int]](dict)
    for name, value in sorted(environment.items()):
        number = int(value) if is_number(value) else None
        shown = name if number is None else f"{name}={value}"
        if found := INDEX.fullmatch(name):
            if number is not None or name.endswith("HOST"):
                indices[first_word(found)][shown] = number or 0
        elif found := COUNT.fullmatch(name):
            counts[first_word(found)][shown] = 1 + value.count(",") if number is None else number
    for word in counts:
        several = {shown: count for shown, count in counts[word].items() if count > 1}
        most = max(several.values(), default=0)
        below = [shown for shown, index in indices[word].items() if index < most]
        if below and word not in known:
            return ", ".join([*below, *several])
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
    """Return a line for a lone process of a shell or script in a Slurm allocation, else ""."""
    job = environment.get("SLURM_JOB_ID")
    if not job or detect_launcher(environment).by != "plain":
        return ""
    return f"inside Slurm job {job}, alone; srun starts one agent per task"


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id") or socket.gethostname()


def namespace(kind: str) -> str:
    """Return an identifier of a namespace of this process in this running kernel.

    Processes share it if they see the same network ("net") or clock ("time"), for example.
    """
    try:
        inode = os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:  # without such namespaces there is one per host
        inode = 0
    return f"{boot_id()}-{inode}"


def usable_cores() -> list[int]:
    with suppress(AttributeError, OSError):  # not on Linux, or refused
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_cores(root: Path = ROOT) -> int:
    """Return how many cores this process may use: its affinity, cut to its CPU quota."""
    cores = len(usable_cores())
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


@dataclass(frozen=True)
class Limits:
    """What a process may use of its host.

    Attributes:
        cores: numbers of the cores that it may run on.
        cpuset: those that it could run on if nothing bound it to fewer (taskset, a launcher).
        cpu_quota: cores' worth of time that its control groups allow; None without a quota.
        memory_bytes: memory that they allow; None without a limit.
    """

    cores: list[int] = field(default_factory=list)
    cpuset: list[int] = field(default_factory=list)
    cpu_quota: float | None = None
    memory_bytes: int | None = None


def limits(root: Path = ROOT) -> Limits:
    return Limits(usable_cores(), cpuset(root), cpu_quota(root), memory_limit(root))


def cpuset(root: Path = ROOT) -> list[int]:
    """Return the cores of the control group of this process; without one all that are online."""
    for folder in group_folders("cpuset", root):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):  # versions 2 and 1
            if cores := read_text(folder / name):
                return sorted(cores_in(cores))
    return list(range(os.cpu_count() or 1))


def cores_in(text: str) -> set[int]:
    """Return the cores of a list of the kernel's, such as "0-3,8"."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def core_list(cores: Sequence[int]) -> str:
    runs = groupby(enumerate(cores), lambda pair: pair[1] - pair[0])
    spans = [[core for _, core in run] for _, run in runs]
    return ",".join(f"{one}-{more[-1]}" if more else f"{one}" for one, *more in spans)


SLOWED_GROUP = re.compile(r"benchkit-\d+")
"""The name of a control group that slows down the process of that number (launch/slowdown)."""
UNLIMITED_BYTES = 2**62
"""Version 1 writes a number beyond this one where there is no memory limit."""


def cpu_quota(root: Path = ROOT) -> float | None:
    """Return the least CPU quota of this process's control groups in cores; None without one.

    A quota by which benchkit itself slows a rank down is not counted.
    """
    groups = [each for each in group_folders("cpu", root) if not SLOWED_GROUP.fullmatch(each.name)]
    return min(filter(None, map(quota_of, groups)), default=None)


def quota_of(folder: Path) -> float | None:
    version_1 = (folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
    quota, period = read_text(folder / "cpu.max").split() or map(read_text, version_1)
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def memory_limit(root: Path = ROOT) -> int | None:
    """Return the least memory limit of this process's control groups in bytes; None without."""
    folders = group_folders("memory", root)
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [read_text(folder / name) for folder in folders for name in names]
    given = [int(text) for text in texts if text.isdigit()]
    return min((limit for limit in given if limit < UNLIMITED_BYTES), default=None)


def group_folders(controller: str, root: Path = ROOT) -> list[Path]:
    return list(chain.from_iterable(control_groups(controller, root).values()))


def control_groups(controller: str, root: Path = ROOT) -> dict[int, list[Path]]:
    """Return the control groups that limit this process, by their version (cgroups(7)).

    They are folders: that of its own group, then those of the groups around it up to the mount.
    A host may have both versions at once, each with some of the controllers (such as "cpu").
    """
    own = {}
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            own[1 if controllers else 2] = path
    found: dict[int, list[Path]] = {}
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, *_, options = after.split(" ")
        version = {"cgroup": 1, "cgroup2": 2}.get(kind)
        if version not in own or (version == 1 and controller not in options.split(",")):
            continue
        mounted, mount = map(unescaped, before.split(" ")[3:5])
        folders = folders_up_to(root / mount.lstrip("/"), mounted, own[version])
        if len(folders) > len(found.get(version, ())):  # of several mounts, the one that shows most
            found[version] = folders
    return found


def folders_up_to(mount: Path, mounted: str, own: str) -> list[Path]:
    """Return the folder of a control group and those around it, up to the folder of the mount.

    Args:
        mounted: the group that is mounted there.
        own: the group to find. Both paths begin at the root of the cgroup namespace; ".." leads out
            of it, into groups whose names are hidden.
    """
    above, below = (list(filter(None, path.split("/"))) for path in (mounted, own))
    while above and below and above[0] == below[0]:
        del above[0], below[0]
    if ".." in below or any(name != ".." for name in above):
        return []  # the mount does not show the group
    folder = mount.joinpath(*below)
    if above:  # the mount begins above the namespace: the folder of this process is searched
        pattern = "/".join(["*" for _ in above] + [glob.escape(name) for name in below])
        pid = str(os.getpid())
        groups = mount.glob(pattern)
        has_me = (each for each in groups if pid in read_text(each / "cgroup.procs").split())
        folder = next(has_me, mount)
    depth = len(folder.parts) - len(mount.parts)
    return [each for each in [folder, *folder.parents][: depth + 1] if each.is_dir()]


def unescaped(path: str) -> str:
    """Return a path of mountinfo, in which "\\040" stands for a space (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)


PINNING = (
    "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET",
    "OMP_THREAD_LIMIT", "OMP_DYNAMIC",
)  # fmt: skip
"""Variables by which OpenMP pins threads to cores, or starts fewer than it is asked for.

It reads them where torch is loaded, and some pin the whole process at once: in the fork server, all
ranks to one core.
"""


@contextmanager
def without_pinning() -> Iterator[None]:
    """Hide PINNING from what is loaded or started meanwhile; benchkit places ranks itself."""
    hidden = {name: os.environ.pop(name) for name in PINNING if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def read_text(path: str | Path) -> str:
    """Return the stripped content of a small file; "" if it is not readable."""
    try:
        # The name of a mount may hold bytes that are no text.
        return Path(path).read_text(errors="surrogateescape").strip()
    except OSError:
        return ""
