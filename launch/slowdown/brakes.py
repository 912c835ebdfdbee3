"""The brake of one process: applied and let go by the process itself, whatever mechanism there is for it."""

import os
from typing import Protocol

from launch.slowdown.cgroup import CpuQuota, find_room
from launch.slowdown.duty_cycle import DutyCycle

MECHANISMS = ("none", "mps", "cgroup", "duty_cycle")


class Brake(Protocol):
    """Slows this process down by a factor >= 1; `mechanism` names how."""

    mechanism: str
    switchable: bool

    def press(self, factor: float) -> None:
        """From now on everything takes about `factor` times as long."""
        ...

    def release(self) -> None:
        """Full speed again, from the return of this call on."""
        ...


class NoBrake:
    """Of a process that runs at full speed, or whose share of a GPU was set before it began (MPS)."""

    def __init__(self, mechanism: str = "none") -> None:
        self.mechanism, self.switchable = mechanism, mechanism == "none"

    def press(self, factor: float) -> None:
        pass

    def release(self) -> None:
        pass


def make_brake(mechanism: str, threads: int) -> Brake:
    """The brake of this process, which computes with so many threads; `auto`: a CPU quota where one may be set.

    Raises OSError where a CPU quota is asked for and none may be set.
    """
    if mechanism == "mps":
        return NoBrake(mechanism)
    room = find_room() if mechanism in ("auto", "cgroup") else None
    if room:
        try:
            return CpuQuota(room, threads)
        except OSError:  # a group may be made here, but no process moved into it
            if mechanism == "cgroup":
                raise
    if mechanism == "cgroup":
        raise PermissionError("no control group here in which this user may set a CPU quota")
    return DutyCycle(os.getpid())
