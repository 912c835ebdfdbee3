"""A CPU quota by a control group of its own, below the one that the process is in (Linux, v1 and v2).

Kernel documentation: scheduler/sched-bwc and admin-guide/cgroup-v2. Root may, and whoever a group was delegated to.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 10_000
"""Short, that a step of some ten milliseconds is slowed evenly; the kernel's least quota is 1000 us."""
LEAST_QUOTA_US = 1000
LONGEST_PERIOD_US = 1_000_000
"""The kernel takes no longer one: less than a thousandth of a core cannot be had."""
PREFIX = "benchkit-"
EMPTY_WITHIN_S = 0.5
MOUNTS, MEMBERSHIP = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")


class QuotaUnavailable(Exception):
    """No CPU quota may be set here, or the kernel refuses this one."""


@dataclass(frozen=True)
class Room:
    """A control group in which children with a quota may be made."""

    folder: Path
    version: int


def find_room(cores: float) -> Room | None:
    """Where a child group with a quota of so many cores can be made for this process; None where nowhere."""
    for room in rooms():
        trial = room.folder / f"{PREFIX}trial-{os.getpid()}"
        with suppress(OSError):
            trial.mkdir()
            try:
                limit(trial, room.version, cores)  # version 1 refuses more than the group above has
                return room
            except OSError:
                continue
            finally:
                trial.rmdir()
    return None


def rooms() -> list[Room]:
    """The groups to try: this process's own, and its parent, for in version 2 one with processes has no children."""
    found = []
    groups = dict(group_of(line) for line in read_lines(MEMBERSHIP))
    for mounted_root, mount, kind, options in map(mount_of, read_lines(MOUNTS)):
        version = {"cgroup": 1, "cgroup2": 2}.get(kind)
        if version is None or (version == 1 and "cpu" not in options):
            continue
        name = groups.get("cpu" if version == 1 else "", "/")
        below = os.path.relpath(name, mounted_root) if name.startswith(mounted_root) else "."
        inside = Path(mount) / below
        for folder in dict.fromkeys((inside, Path(mount) / os.path.dirname(below))):
            if version == 1 or "cpu" in (read_lines(folder / "cgroup.subtree_control") or [""])[0].split():
                found.append(Room(folder, version))
    return found


def group_of(line: str) -> tuple[str, str]:
    """Of a line of /proc/self/cgroup, "1:cpu,cpuacct:/a": the controller ("cpu", "" in version 2) and the group."""
    _, controllers, group = line.split(":", 2)
    return ("cpu" if "cpu" in controllers.split(",") else controllers), group


def mount_of(line: str) -> tuple[str, str, str, list[str]]:
    """Of a line of mountinfo: what is mounted, where, the kind of file system, and its own options."""
    before, _, after = line.partition(" - ")
    kind, _, options = after.split(" ", 2)
    return before.split()[3], before.split()[4], kind, options.split(",")


def read_lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def limit(folder: Path, version: int, cores: float | None) -> None:
    """Sets how many cores' worth of time a group has; None: no limit."""
    quota = None if cores is None else round(cores * PERIOD_US)
    period = PERIOD_US
    if quota is not None and quota < LEAST_QUOTA_US:
        assert cores
        quota, period = LEAST_QUOTA_US, min(LONGEST_PERIOD_US, round(LEAST_QUOTA_US / cores))
    if version == 2:
        (folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
        return
    (folder / "cpu.cfs_quota_us").write_text("-1")  # else a shorter period could be refused
    (folder / "cpu.cfs_period_us").write_text(str(period))
    if quota is not None:
        (folder / "cpu.cfs_quota_us").write_text(str(quota))


class CpuQuota:
    """Puts this process, with all its threads, into a group of its own.

    Raises QuotaUnavailable where the process may not move there, and where the kernel refuses a quota.
    """

    mechanism, switchable = "cgroup", True

    def __init__(self, room: Room, threads: int) -> None:
        self._version, self._threads = room.version, threads
        self._folder = room.folder / f"{PREFIX}{os.getpid()}"
        self._folder.mkdir(exist_ok=True)
        try:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            self._folder.rmdir()
            raise QuotaUnavailable(f"no process may move into {self._folder}: {error.strerror}") from None

    def apply(self, factor: float) -> None:
        cores = self._threads / factor
        try:
            limit(self._folder, self._version, cores)
        except OSError as error:
            raise QuotaUnavailable(f"a CPU quota of {cores:g} cores in {self._folder}: {error.strerror}") from None

    def release(self) -> None:
        limit(self._folder, self._version, None)


def remove_abandoned() -> None:
    """Removes the groups of processes that have ended; one empties a moment after its last process."""
    deadline = time.monotonic() + EMPTY_WITHIN_S
    for folder in (folder for room in rooms() for folder in room.folder.glob(f"{PREFIX}[0-9]*")):
        while not Path("/proc", folder.name.removeprefix(PREFIX)).exists():
            try:
                folder.rmdir()
            except OSError:
                if folder.exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
            break
