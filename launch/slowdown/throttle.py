"""The throttle of one process, which the process itself applies and releases."""

import os
from typing import Protocol

from launch.slowdown.cgroup import CpuQuota, QuotaUnavailable, find_room
from launch.slowdown.duty_cycle import DutyCycle

MECHANISMS = ("none", "mps", "cgroup", "duty_cycle")


class Throttle(Protocol):
    """Slows this process down by a factor >= 1.

    Attributes:
        mechanism: how, one of MECHANISMS.
        switchable: whether release() gives full speed.
    """

    mechanism: str
    switchable: bool

    def apply(self, factor: float) -> None:
        """Makes everything take about `factor` times as long from now on."""
        ...

    def release(self) -> None:
        """Gives full speed again, from the return of this call on."""
        ...


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
    """Makes the throttle of this process.

    Args:
        mechanism: `auto`, `cgroup` or `duty_cycle`; `auto` is a CPU quota if one may be set, else
            a duty cycle.
        threads: number of threads that this process computes with.
        factor: how many times slower the process is to be.

    Raises:
        QuotaUnavailable: a CPU quota is asked for and none may be set.
    """
    cores = threads / factor
    room = find_room(cores) if mechanism in ("auto", "cgroup") else None
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
