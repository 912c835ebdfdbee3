"""This host as this process sees it: names, namespaces, cores, limits of control groups."""

import glob
import math
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path

ROOT = Path("/")


def node_name() -> str:
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def boot_id() -> str:
    return read_text("/proc/sys/kernel/random/boot_id") or socket.gethostname()


def namespace(kind: str) -> str:
    """Return an identifier of a namespace of this process, unique across hosts and boots.

    It is equal for processes that share the network ("net") or the clock ("time"), for example.
    """
    try:
        inode = os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:  # without such namespaces there is one per host
        inode = 0
    return f"{boot_id()}-{inode}"


def affinity_cores() -> list[int]:
    with suppress(AttributeError, OSError):  # not on Linux, or refused
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_cores(root: Path = ROOT) -> int:
    """Return the number of usable cores: the affinity mask, limited by the CPU quota."""
    cores = len(affinity_cores())
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


@dataclass(frozen=True)
class ResourceLimits:
    """Resource limits of a process on its host.

    Attributes:
        cores: core numbers of the affinity mask.
        cpuset: cores of its control group, without a binding by taskset or a launcher.
        cpu_quota: CPU quota of its control groups, in cores; None without a quota.
        memory_bytes: memory limit of its control groups; None without a limit.
    """

    cores: list[int] = field(default_factory=list)
    cpuset: list[int] = field(default_factory=list)
    cpu_quota: float | None = None
    memory_bytes: int | None = None


def resource_limits(root: Path = ROOT) -> ResourceLimits:
    return ResourceLimits(affinity_cores(), cpuset(root), cpu_quota(root), memory_limit(root))


def cpuset(root: Path = ROOT) -> list[int]:
    """Return the cores of this process's control group, or all online cores without one."""
    for folder in cgroup_folders("cpuset", root):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):  # versions 2 and 1
            if cores := read_text(folder / name):
                return sorted(parse_core_list(cores))
    return list(range(os.cpu_count() or 1))


def parse_core_list(text: str) -> set[int]:
    """Parse a core list of the kernel, such as "0-3,8"."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def format_core_list(cores: Sequence[int]) -> str:
    runs = groupby(enumerate(cores), lambda pair: pair[1] - pair[0])
    spans = [[core for _, core in run] for _, run in runs]
    return ",".join(f"{first}-{rest[-1]}" if rest else f"{first}" for first, *rest in spans)


SLOWED_GROUP = re.compile(r"benchkit-\d+")
"""Name of a control group that slows down the process with that pid (launch/slowdown)."""
UNLIMITED_BYTES = 2**62
"""cgroup v1 reports a number above this one where there is no memory limit."""


def cpu_quota(root: Path = ROOT) -> float | None:
    """Return the smallest CPU quota of this process's control groups, in cores; None without one.

    A quota by which benchkit slows a rank down is not counted.
    """
    groups = [
        folder for folder in cgroup_folders("cpu", root) if not SLOWED_GROUP.fullmatch(folder.name)
    ]
    return min(filter(None, map(quota_of, groups)), default=None)


def quota_of(folder: Path) -> float | None:
    version_1 = (folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
    quota, period = read_text(folder / "cpu.max").split() or map(read_text, version_1)
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def memory_limit(root: Path = ROOT) -> int | None:
    """Return the smallest memory limit of this process's control groups, in bytes; None without."""
    folders = cgroup_folders("memory", root)
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [read_text(folder / name) for folder in folders for name in names]
    limits = [int(text) for text in texts if text.isdigit()]
    return min((limit for limit in limits if limit < UNLIMITED_BYTES), default=None)


def cgroup_folders(controller: str, root: Path = ROOT) -> list[Path]:
    return list(chain.from_iterable(cgroups_by_version(controller, root).values()))


def cgroups_by_version(controller: str, root: Path = ROOT) -> dict[int, list[Path]]:
    """Return the folders of the control groups that limit this process, by version (cgroups(7)).

    The folder of its own group comes first, then its ancestors up to the mount. A host may have
    both versions at once, each with some of the controllers (such as "cpu").
    """
    group_paths = {}
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            group_paths[1 if controllers else 2] = path
    folders_by_version: dict[int, list[Path]] = {}
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        mount_fields, _, file_system_fields = line.partition(" - ")
        kind, *_, options = file_system_fields.split(" ")
        version = {"cgroup": 1, "cgroup2": 2}.get(kind)
        if version not in group_paths or (version == 1 and controller not in options.split(",")):
            continue
        mount_root, mount = map(unescape, mount_fields.split(" ")[3:5])
        folders = cgroup_ancestors(root / mount.lstrip("/"), mount_root, group_paths[version])
        # Of several mounts take the one that shows most.
        if len(folders) > len(folders_by_version.get(version, ())):
            folders_by_version[version] = folders
    return folders_by_version


def cgroup_ancestors(mount: Path, mount_root: str, group: str) -> list[Path]:
    """Return the folder of a control group and its ancestors, up to the folder of the mount.

    Args:
        mount_root: the group that is mounted at `mount`.
        group: the group to find. Both paths begin at the root of the cgroup namespace; ".." leads
            out of it, into groups whose names are hidden.
    """
    above, below = (list(filter(None, path.split("/"))) for path in (mount_root, group))
    while above and below and above[0] == below[0]:
        del above[0], below[0]
    if ".." in below or any(name != ".." for name in above):
        return []  # the mount does not show the group
    folder = mount.joinpath(*below)
    if above:  # the mount begins above the namespace: the folder of this process is searched
        pattern = "/".join(["*" for _ in above] + [glob.escape(name) for name in below])
        pid = str(os.getpid())
        groups = mount.glob(pattern)
        own_groups = (
            ancestor for ancestor in groups if pid in read_text(ancestor / "cgroup.procs").split()
        )
        folder = next(own_groups, mount)
    depth = len(folder.parts) - len(mount.parts)
    return [ancestor for ancestor in [folder, *folder.parents][: depth + 1] if ancestor.is_dir()]


def unescape(path: str) -> str:
    """Decode a path of mountinfo, in which "\\040" is a space (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)


PINNING = (
    "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET",
    "OMP_THREAD_LIMIT", "OMP_DYNAMIC",
)  # fmt: skip
"""Variables by which OpenMP pins threads to cores, or limits their number.

OpenMP reads them when torch is loaded, and some pin the whole process at once: in the fork server,
all ranks to one core.
"""


@contextmanager
def hide_pinning() -> Iterator[None]:
    """Hide PINNING from modules loaded and processes started in this context.

    benchkit places ranks itself.
    """
    hidden = {name: os.environ.pop(name) for name in PINNING if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def read_text(path: str | Path) -> str:
    """Return the stripped content of a small file; "" if it is not readable."""
    try:
        # The name of a mount may hold bytes that are not UTF-8.
        return Path(path).read_text(errors="surrogateescape").strip()
    except OSError:
        return ""
