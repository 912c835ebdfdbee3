"""This host as this process sees it: names, namespaces, cores, and limits of control groups."""

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
    """Return an identifier of a namespace of this process in this running kernel.

    Processes share it if they see the same network ("net") or clock ("time"), for example.
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
    """Return how many cores this process may use: its affinity, cut to its CPU quota."""
    cores = len(affinity_cores())
    quota = cpu_quota(root)
    return cores if quota is None else max(1, min(cores, math.floor(quota)))


@dataclass(frozen=True)
class ResourceLimits:
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


def resource_limits(root: Path = ROOT) -> ResourceLimits:
    return ResourceLimits(affinity_cores(), cpuset(root), cpu_quota(root), memory_limit(root))


def cpuset(root: Path = ROOT) -> list[int]:
    """Return the cores of the control group of this process; without one all that are online."""
    for folder in cgroup_folders("cpuset", root):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus"):  # versions 2 and 1
            if cores := read_text(folder / name):
                return sorted(parse_core_list(cores))
    return list(range(os.cpu_count() or 1))


def parse_core_list(text: str) -> set[int]:
    """Return the cores of a list of the kernel's, such as "0-3,8"."""
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def format_core_list(cores: Sequence[int]) -> str:
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
    groups = [each for each in cgroup_folders("cpu", root) if not SLOWED_GROUP.fullmatch(each.name)]
    return min(filter(None, map(quota_of, groups)), default=None)


def quota_of(folder: Path) -> float | None:
    version_1 = (folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us")
    quota, period = read_text(folder / "cpu.max").split() or map(read_text, version_1)
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def memory_limit(root: Path = ROOT) -> int | None:
    """Return the least memory limit of this process's control groups in bytes; None without."""
    folders = cgroup_folders("memory", root)
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [read_text(folder / name) for folder in folders for name in names]
    given = [int(text) for text in texts if text.isdigit()]
    return min((limit for limit in given if limit < UNLIMITED_BYTES), default=None)


def cgroup_folders(controller: str, root: Path = ROOT) -> list[Path]:
    return list(chain.from_iterable(cgroups_by_version(controller, root).values()))


def cgroups_by_version(controller: str, root: Path = ROOT) -> dict[int, list[Path]]:
    """Return the control groups that limit this process, by their version (cgroups(7)).

    They are folders: that of its own group, then those of the groups around it up to the mount.
    A host may have both versions at once, each with some of the controllers (such as "cpu").
    """
    group_paths = {}
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            group_paths[1 if controllers else 2] = path
    folders_by_version: dict[int, list[Path]] = {}
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, *_, options = after.split(" ")
        version = {"cgroup": 1, "cgroup2": 2}.get(kind)
        if version not in group_paths or (version == 1 and controller not in options.split(",")):
            continue
        mounted, mount = map(unescape, before.split(" ")[3:5])
        folders = cgroup_ancestors(root / mount.lstrip("/"), mounted, group_paths[version])
        if len(folders) > len(
            folders_by_version.get(version, ())
        ):  # of several mounts, the one that shows most
            folders_by_version[version] = folders
    return folders_by_version


def cgroup_ancestors(mount: Path, mount_root: str, group: str) -> list[Path]:
    """Return the folder of a control group and those around it, up to the folder of the mount.

    Args:
        mounted: the group that is mounted there.
        own: the group to find. Both paths begin at the root of the cgroup namespace; ".." leads out
            of it, into groups whose names are hidden.
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
        has_me = (each for each in groups if pid in read_text(each / "cgroup.procs").split())
        folder = next(has_me, mount)
    depth = len(folder.parts) - len(mount.parts)
    return [each for each in [folder, *folder.parents][: depth + 1] if each.is_dir()]


def unescape(path: str) -> str:
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
