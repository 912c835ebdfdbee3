"""The throttle of one process: applied and let go by the process itself, whatever mechanism there is for it."""

import os
from typing import Protocol

from launch.slowdown.cgroup import CpuQuota, QuotaUnavailable, find_room
from launch.slowdown.duty_cycle import DutyCycle

MECHANISMS = ("none", "mps", "cgroup", "duty_cycle")


class Throttle(Protocol):
    """Slows this process down by a factor >= 1; `mechanism` names how."""

    mechanism: str
    switchable: bool

    def apply(self, factor: float) -> None:
        """From now on everything takes about `factor` times as long."""
        ...

    def release(self) -> None:
        """Full speed again, from the return of this call on."""
        ...


class NoThrottle:
    """Of a process that runs at full speed, or whose share of a GPU was set before it began (MPS)."""

    def __init__(self, mechanism: str = "none", switchable: bool = True) -> None:
        self.mechanism, self.switchable = mechanism, switchable

    def apply(self, factor: float) -> None:
        pass

    def release(self) -> None:
        pass


def make_throttle(mechanism: str, threads: int, factor: float) -> Throttle:
    """The throttle of this process, which computes with so many threads; `auto`: a CPU quota where one may be set.

    Raises QuotaUnavailable where a CPU quota is asked for and cannot be had.
    """
    room = find_room(threads / factor) if mechanism in ("auto", "cgroup") else None
    if room:
        try:
            return CpuQuota(room, threads)
        except QuotaUnavailable:  # a group may be made here, but no process moved into it
            if mechanism == "cgroup":
                raise
    if mechanism == "cgroup":
        raise QuotaUnavailable(f"no control group here takes a CPU quota of {threads / factor:g} cores from this user")
    return DutyCycle(os.getpid())
