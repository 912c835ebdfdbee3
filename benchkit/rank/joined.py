"""What a rank's process keeps while it measures one point after another."""

import gc
import os
import sys
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from benchkit.api.memory import free_unused
from benchkit.rank import backends
from benchkit.rank.assignment import Assignment, by_mps
from benchkit.rank.control_group import ControlGroup
from benchkit.rank.devices import Devices, gather_devices
from benchkit.rank.rendezvous import Rendezvous
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.record.rank_use import RankUse
from launch.slowdown.throttle import NoThrottle, Throttle, make_throttle
from launch.topology import read_text

_joined: dict[Rendezvous, "Joined"] = {}
"""By where its ranks met, what this process has joined: process-wide, as torch's group is."""


@dataclass
class Joined:
    """The groups and devices of this rank, which do not change from point to point.

    Attributes:
        device: of this rank.
        group: the control channel.
        devices: of all ranks.
        controller: of this rank's throttle.
        side_groups: groups of all ranks over other backends, by name.
        num_points: number of points that this process has begun.
    """

    device: torch.device
    group: ControlGroup
    devices: Devices
    controller: ThrottleController
    side_groups: dict[str, dist.ProcessGroup | None] = field(default_factory=dict)
    num_points: int = 0

    def side_group(self, name: str, assignment: Assignment) -> dist.ProcessGroup | None:
        """Returns the group of all ranks over a backend; all ranks call this together.

        Raises:
            Unavailable: on all ranks, if one of them cannot have the group.
        """

        def first_reason(reason: str) -> str:
            return self.group.first_reason([reason])[0].reason

        if name not in self.side_groups:
            timeout = backends.group_timeout(assignment.config)
            made = backends.side_group(name, self.device, timeout, first_reason)
            self.side_groups[name] = made
        return self.side_groups[name]

    def begin_point(self) -> RankUse:
        """Returns what the ranks have done and hold; all ranks call this together."""
        held = float(torch.cuda.memory_allocated()) if self.device.type == "cuda" else 0.0
        rows = self.group.exchange([float(resident_bytes()), held])
        self.num_points += 1
        return RankUse(
            points_before=self.num_points - 1,
            host_bytes=[int(row[0]) for row in rows],
            device_bytes=[int(row[1]) for row in rows],
        )


def joined(assignment: Assignment) -> Joined:
    """Joins the group of this rank's process, or returns what it has joined for an earlier point.

    All ranks call this together. What an earlier point has left is given back.

    Raises:
        Unavailable: on all ranks alike, if torch is built without the backend.
    """
    found = _joined.get(assignment.rendezvous)
    if found is None:
        found = _joined[assignment.rendezvous] = join(assignment)
    else:
        forget_last_point(found.device)
    return found


def join(assignment: Assignment) -> Joined:
    """Joins the process group."""
    config = assignment.config
    device = backends.join(config, assignment.place, assignment.world_size, assignment.rendezvous)
    handle = backends.control_group(backends.group_timeout(config))
    group = ControlGroup(handle, assignment.world_size)
    shares_by_mps = by_mps(config, assignment.slowdown)
    devices = gather_devices(device, group, assignment.idle_pids, shares_by_mps)
    backends.warm_up(device)
    gc.freeze()  # collections between points need not search what has been imported
    return Joined(device, group, devices, make_controller(assignment))


def make_controller(assignment: Assignment) -> ThrottleController:
    """Returns the controller of this rank's throttle, which is not yet applied."""
    hardware = assignment.config.hardware
    slowdown = assignment.slowdown
    factor = slowdown[assignment.place.rank]
    throttle: Throttle = NoThrottle()
    if by_mps(assignment.config, slowdown):
        # If no rank is slowed down, there is nothing to release: the throttle counts as switchable.
        throttle = NoThrottle("mps", switchable=max(slowdown) == 1)
    elif factor > 1:
        throttle = make_throttle(hardware.slow_by, assignment.threads, factor)
    return ThrottleController(throttle, factor, factor)


def forget_last_point(device: torch.device) -> None:
    """Gives memory back, and lets torch forget what it has compiled."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
    if device.type == "cuda":
        free_unused()
    else:
        gc.collect()


def resident_bytes() -> int:
    """Returns the memory of this process that is resident, in bytes."""
    return int(read_text("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
