"""The session of a rank, kept from point to point: its groups, its device, its throttle."""

import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist

from benchkit.api import p2p
from benchkit.api.case import noop
from benchkit.api.memory import free_unused
from benchkit.api.torch_internals import keep_gpu_busy, reset_compiler
from benchkit.errors import Reason
from benchkit.measure.clocks import Clock, CudaClock, HostClock
from benchkit.rank import backends
from benchkit.rank.assignment import Assignment, Rendezvous
from benchkit.rank.backends import ControlGroup
from benchkit.rank.devices import Devices, all_gather_devices, format_ranks
from benchkit.rank.prober import Prober
from benchkit.rank.throttle import ThrottleController
from benchkit.record.record import RankUse
from launch.agents.clock import Offset
from launch.host import format_core_list, read_text, resource_limits
from launch.slowdown.cgroup import NoThrottle, Throttle, make_throttle

_sessions: dict[Rendezvous, "RankSession"] = {}
"""Sessions of this process by rendezvous; process-wide, as torch's process group is."""


@dataclass
class RankSession:
    """The state of a rank for all points of its process.

    Attributes:
        group: the control channel.
        timeout: timeout of all groups.
        side_groups: groups of all ranks over other backends, by name.
        num_points: number of points that this process has begun.
    """

    device: torch.device
    group: ControlGroup
    devices: Devices
    controller: ThrottleController
    timeout: timedelta
    side_groups: dict[str, dist.ProcessGroup | None] = field(default_factory=dict)
    num_points: int = 0

    def side_group(self, name: str) -> dist.ProcessGroup | None:
        """Return the group of all ranks over a backend; all ranks call this together."""

        def first_reason(reason: Reason) -> Reason:
            return self.group.first_reason([reason])[0].reason

        if name not in self.side_groups:
            group = backends.new_side_group(name, self.device, self.timeout, first_reason)
            self.side_groups[name] = group
        return self.side_groups[name]

    def subgroup(self, ranks: Sequence[int]) -> dist.ProcessGroup | None:
        """Return the group of these ranks, None on other ranks; all ranks call this together."""
        return p2p.subgroup(self.timeout, ranks)

    def begin_point(self) -> RankUse:
        """Return the ranks' earlier points and memory in use; all ranks call this together."""
        allocated = float(torch.cuda.memory_allocated())  # 0 where CUDA was not started
        rows = self.group.all_gather([float(resident_bytes()), allocated])
        self.num_points += 1
        return RankUse(
            points_before=self.num_points - 1,
            host_bytes=[int(row[0]) for row in rows],
            device_bytes=[int(row[1]) for row in rows],
        )

    def make_clock(self, offset: Offset, while_busy: Callable[[], object] = noop) -> Clock:
        """Return the clock that times calls on the device.

        On GPUs a tiny collective of the measured backend aligns the events; only NCCL is certain to
        queue it without blocking.
        """
        if self.device.type == "cpu":
            return HostClock(offset.at)
        token = torch.zeros(1, device=self.device)
        blocks = dist.get_backend() != "nccl"
        align = partial(dist.all_reduce, token)
        return CudaClock(torch.cuda, align, keep_gpu_busy, blocks, while_busy)

    def make_prober(self, assignment: Assignment, clock: Clock) -> Prober:
        return Prober(
            rank=assignment.place.rank,
            controller=self.controller,
            worst=max(assignment.slowdown),
            clock=clock,
            peers=self.group,
            budget_s=assignment.config.measure.probe_seconds,
        )

    def differences_from_plan(self, assignment: Assignment) -> list[str]:
        """Return differences of ranks from the plan, as "ranks 0, 1: cores 0, planned 0-3".

        All ranks call this together, at the end: a library may pin its process at its first use.
        """
        actual, planned = resource_limits(), assignment.limits
        pairs = {
            "cores": (
                format_core_list(actual.cores),
                format_core_list(self.devices.bound_to or planned.cores),
            ),
            "CPU quota in cores": (actual.cpu_quota or "none", planned.cpu_quota or "none"),
            "memory limit in bytes": (
                actual.memory_bytes or "none",
                planned.memory_bytes or "none",
            ),
            "threads": (torch.get_num_threads(), assignment.threads),
        }
        differences = [f"{name} {a}, planned {b}" for name, (a, b) in pairs.items() if a != b]
        ranks: dict[str, list[int]] = {}
        for rank, rank_differences in enumerate(
            p2p.all_gather_json(differences, self.group.handle)
        ):
            for difference in rank_differences:
                ranks.setdefault(difference, []).append(rank)
        return [
            f"{format_ranks(same_ranks)}: {difference}" for difference, same_ranks in ranks.items()
        ]


def forget_point() -> None:
    """Free the compiled code and the memory of a point."""
    reset_compiler()
    free_unused()


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; 0 without /proc."""
    _, pages, *_ = read_text("/proc/self/statm").split() or (0, 0)
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def open_session(assignment: Assignment) -> RankSession:
    """Join the process group, or return the session of an earlier point.

    All ranks call this together. Raises Unavailable on all ranks if torch is built without the
    backend.
    """
    session = _sessions.get(assignment.rendezvous)
    if session is None:
        session = _sessions[assignment.rendezvous] = new_session(assignment)
    return session


def new_session(assignment: Assignment) -> RankSession:
    config, place = assignment.config, assignment.place
    device = backends.init_process_group(
        config, place, assignment.world_size, assignment.rendezvous
    )
    timeout = backends.group_timeout(config)
    group = ControlGroup(backends.new_control_group(timeout), assignment.world_size)
    host = assignment.hosts[place.rank]
    devices = all_gather_devices(device, group, host, assignment.idle_pids, assignment.uses_mps)
    backends.connect_ranks(device)
    gc.freeze()  # collections between points need not search what has been imported
    return RankSession(device, group, devices, make_controller(assignment), timeout)


def make_controller(assignment: Assignment) -> ThrottleController:
    """Return the controller of this rank's throttle, not yet applied."""
    slowdown = assignment.slowdown
    factor = slowdown[assignment.place.rank]
    throttle: Throttle = NoThrottle()
    if assignment.uses_mps:
        # If no rank is slowed down, there is nothing to release: the throttle counts as switchable.
        throttle = NoThrottle("mps", switchable=max(slowdown) == 1)
    elif factor > 1:
        throttle = make_throttle(assignment.config.hardware.slow_by, assignment.threads, factor)
    return ThrottleController(throttle, factor, factor)
