"""Throttles that slow a process down: a CPU quota of a control group (Linux), or another one."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launch.host import cgroups_by_version, read_text
from launch.slowdown.duty_cycle import DutyCycle

PERIOD_US = 10_000
"""Period of a quota: short, so that a step of some ten milliseconds is slowed evenly."""
LEAST_QUOTA_US = 1000
"""Smallest quota that the kernel accepts."""
LONGEST_PERIOD_US = 1_000_000
"""Longest period that the kernel accepts: a quota is at least a thousandth of a core."""
PREFIX = "benchkit-"
EMPTY_WITHIN_S = 0.5


class QuotaUnavailable(Exception): ...


@dataclass(frozen=True)
class CgroupParent:
    folder: Path
    version: int


def find_cgroup_parent(cores: float) -> CgroupParent | None:
    """Find a group that accepts a child with a quota of `cores` cores; None without one."""
    for parent in cgroup_parents():
        trial = parent.folder / f"{PREFIX}trial-{os.getpid()}"
        with suppress(OSError):
            trial.mkdir()
            try:
                # cgroup v1 refuses more than the parent's quota.
                write_cpu_quota(trial, parent.version, cores)
                return parent
            except OSError:
                continue
            finally:
                trial.rmdir()
    return None


def cgroup_parents() -> list[CgroupParent]:
    """Return this process's cgroup and its parent.

    In cgroup v2 a group that has processes cannot have children.
    """
    return [
        CgroupParent(folder, version)
        for version, folders in cgroups_by_version("cpu").items()
        for folder in folders[:2]
        if version == 1 or "cpu" in read_text(folder / "cgroup.subtree_control").split()
    ]


def write_cpu_quota(folder: Path, version: int, cores: float | None) -> None:
    """Set the CPU quota of a group, in cores; None removes the limit."""
    quota = None if cores is None else round(cores * PERIOD_US)
    period = PERIOD_US
    if quota is not None and quota < LEAST_QUOTA_US:
        assert cores
        quota = LEAST_QUOTA_US
        period = min(LONGEST_PERIOD_US, round(LEAST_QUOTA_US / cores))
    if version == 2:
        (folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {period}")
        return
    (folder / "cpu.cfs_quota_us").write_text("-1")  # else the kernel may refuse a shorter period
    (folder / "cpu.cfs_period_us").write_text(str(period))
    if quota is not None:
        (folder / "cpu.cfs_quota_us").write_text(str(quota))


class CpuQuota:
    """Moves this process, with all its threads, into a group; raises QuotaUnavailable."""

    mechanism = "cgroup"
    switchable = True

    def __init__(self, parent: CgroupParent, threads: int) -> None:
        self._version = parent.version
        self._threads = threads
        self._folder = parent.folder / f"{PREFIX}{os.getpid()}"
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
    for parent in cgroup_parents():
        for folder in parent.folder.glob(f"{PREFIX}[0-9]*"):
            remove_if_abandoned(folder, deadline)


def remove_if_abandoned(folder: Path, deadline: float) -> None:
    """Remove the group of an ended process; the kernel empties it a moment later."""
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
    """The throttle of a process at full speed, or with a GPU share set at its start (MPS)."""

    def __init__(self, mechanism: str = "none", switchable: bool = True) -> None:
        self.mechanism = mechanism
        self.switchable = switchable

    def apply(self, factor: float) -> None:
        pass

    def release(self) -> None:
        pass


def make_throttle(mechanism: str, threads: int, factor: float) -> Throttle:
    """Make the throttle of this process; raise QuotaUnavailable if `cgroup` is not possible.

    `auto` is a CPU quota if possible, else a duty cycle.
    """
    cores = threads / factor
    parent = find_cgroup_parent(cores) if mechanism in ("auto", "cgroup") else None
    if parent:
        try:
            return CpuQuota(parent, threads)
        except QuotaUnavailable:  # a group can be made here, but no process moved into it
            if mechanism == "cgroup":
                raise
    if mechanism == "cgroup":
        raise QuotaUnavailable(
            f"no control group here takes a CPU quota of {cores:g} cores from this user"
        )
    return DutyCycle(os.getpid())
