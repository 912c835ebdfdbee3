"""Slows a process down: by a CPU quota of a control group (Linux), or by another throttle."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launch.host import cgroups_by_version, read_text
from launch.slowdown.duty_cycle import DutyCycle

PERIOD_US = 10_000
"""Short, so that a step of some ten milliseconds is slowed evenly."""
LEAST_QUOTA_US = 1000
"""The kernel's least quota."""
LONGEST_PERIOD_US = 1_000_000
"""The kernel takes no longer period, so less than a thousandth of a core is impossible."""
PREFIX = "benchkit-"
EMPTY_WITHIN_S = 0.5


class QuotaUnavailable(Exception): ...


@dataclass(frozen=True)
class CgroupParent:
    folder: Path
    version: int


def find_cgroup_parent(cores: float) -> CgroupParent | None:
    """Find where a child group with a quota of `cores` cores can be made for this process."""
    for room in cgroup_parents():
        trial = room.folder / f"{PREFIX}trial-{os.getpid()}"
        with suppress(OSError):
            trial.mkdir()
            try:
                write_cpu_quota(
                    trial, room.version, cores
                )  # version 1 refuses more than the parent's quota
                return room
            except OSError:
                continue
            finally:
                trial.rmdir()
    return None


def cgroup_parents() -> list[CgroupParent]:
    """Return its own group and the parent: in version 2 a group with processes has no children."""
    return [
        CgroupParent(folder, version)
        for version, folders in cgroups_by_version("cpu").items()
        for folder in folders[:2]
        if version == 1 or "cpu" in read_text(folder / "cgroup.subtree_control").split()
    ]


def write_cpu_quota(folder: Path, version: int, cores: float | None) -> None:
    """Set how many cores' worth of time a group has; None removes the limit."""
    quota = None if cores is None else round(cores * PERIOD_US)
    period = PERIOD_US
    if quota is not None and quota < LEAST_QUOTA_US:
        assert cores
        quota = LEAST_QUOTA_US
        period = min(LONGEST_PERIOD_US, round(LEAST_QUOTA_US / cores))
    if version == 2:
        (folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
        return
    (folder / "cpu.cfs_quota_us").write_text("-1")  # else the kernel could refuse a shorter period
    (folder / "cpu.cfs_period_us").write_text(str(period))
    if quota is not None:
        (folder / "cpu.cfs_quota_us").write_text(str(quota))


class CpuQuota:
    """Puts this process, with all its threads, into a group; raises QuotaUnavailable."""

    mechanism = "cgroup"
    switchable = True

    def __init__(self, room: CgroupParent, threads: int) -> None:
        self._version = room.version
        self._threads = threads
        self._folder = room.folder / f"{PREFIX}{os.getpid()}"
        self._folder.mkdir(exist_ok=True)
        try:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            self._folder.rmdir()
            raise QuotaUnavailable(
                f"no process may move into {self._folder}: {error.strerror}"
            ) from None

    def apply(self, factor: float) -> None:
        cores = self._threads / factor
        try:
            write_cpu_quota(self._folder, self._version, cores)
        except OSError as error:
            raise QuotaUnavailable(
                f"a CPU quota of {cores:g} cores in {self._folder}: {error.strerror}"
            ) from None

    def release(self) -> None:
        write_cpu_quota(self._folder, self._version, None)


def remove_stale_cgroups() -> None:
    deadline = time.monotonic() + EMPTY_WITHIN_S
    for room in cgroup_parents():
        for folder in room.folder.glob(f"{PREFIX}[0-9]*"):
            remove_if_abandoned(folder, deadline)


def remove_if_abandoned(folder: Path, deadline: float) -> None:
    """Remove a group whose process has ended; it becomes empty a moment later."""
    process = Path("/proc", folder.name.removeprefix(PREFIX))
    while not process.exists():
        try:
            folder.rmdir()
            return
        except OSError:
            if not folder.exists() or time.monotonic() >= deadline:
                return
        time.sleep(0.01)


MECHANISMS = ("none", "mps", "cgroup", "duty_cycle")


class Throttle(Protocol):
    mechanism: str
    switchable: bool

    def apply(self, factor: float) -> None: ...

    def release(self) -> None: ...


class NoThrottle:
    """The throttle of a process at full speed, or whose GPU share was set before it began (MPS)."""

    def __init__(self, mechanism: str = "none", switchable: bool = True) -> None:
        self.mechanism = mechanism
        self.switchable = switchable

    def apply(self, factor: float) -> None:
        pass

    def release(self) -> None:
        pass


def make_throttle(mechanism: str, threads: int, factor: float) -> Throttle:
    """Make the throttle of this process; raise QuotaUnavailable where `cgroup` is not allowed.

    `auto` is a CPU quota if one may be set, else a duty cycle.
    """
    cores = threads / factor
    room = find_cgroup_parent(cores) if mechanism in ("auto", "cgroup") else None
    if room:
        try:
            return CpuQuota(room, threads)
        except QuotaUnavailable:  # a group may be made here, but no process moved into it
            if mechanism == "cgroup":
                raise
    if mechanism == "cgroup":
        raise QuotaUnavailable(
            f"no control group here takes a CPU quota of {cores:g} cores from this user"
        )
    return DutyCycle(os.getpid())
