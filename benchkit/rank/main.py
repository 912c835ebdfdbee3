"""One rank: it joins, builds the cases, verifies, measures, verifies again and reports."""

import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.distributed as dist

from benchkit.api.case import Case, Rank, noop
from benchkit.api.keys import COLD
from benchkit.api.memory import PeakMemory, available_bytes, free_unused, host_available_bytes
from benchkit.api.p2p import gather_json, subgroup
from benchkit.api.regions import marked_by
from benchkit.api.registry import load_suites
from benchkit.api.torch_internals import keep_gpu_busy, reset_compiler
from benchkit.errors import Reason
from benchkit.measure.clocks import Clock, CudaClock, HostClock
from benchkit.measure.timer import exchange_named
from benchkit.rank import backends, calibration
from benchkit.rank.assignment import (
    Assignment,
    RankReport,
    Rendezvous,
    by_mps,
    keep_alone,
    store_so_far,
)
from benchkit.rank.backends import ControlGroup
from benchkit.rank.calibration import Prober
from benchkit.rank.devices import (
    Devices,
    GpuWatch,
    gather_devices,
    named,
    set_up_torch,
    torch_settings,
)
from benchkit.rank.run_cases import (
    RankRun,
    Stopwatch,
    ignore,
    odd_details,
    of_several_cases,
    require_sound,
    run_cases,
)
from benchkit.rank.sampling_hooks import flushed_profiler
from benchkit.rank.throttle import ThrottleController
from benchkit.rank.traces import record_traces, trace_file
from benchkit.record.record import CaseRecord, Measured, RankUse, SlowdownReport
from benchkit.streams import protect_streams
from launch.agents.group import Offset
from launch.ranks import entry
from launch.slowdown.cgroup import NoThrottle, Throttle, make_throttle
from launch.topology import core_list, limits, read_text

_joined: dict[Rendezvous, "Joined"] = {}
"""By rendezvous, what this process has joined: process-wide, as torch's group is."""


@dataclass
class Joined:
    """The groups and devices of this rank, which do not change from point to point.

    Attributes:
        group: the control channel.
        side_groups: groups of all ranks over other backends, by name.
        num_points: points that this process has begun.
    """

    device: torch.device
    group: ControlGroup
    devices: Devices
    controller: ThrottleController
    side_groups: dict[str, dist.ProcessGroup | None] = field(default_factory=dict)
    num_points: int = 0

    def side_group(self, name: str, assignment: Assignment) -> dist.ProcessGroup | None:
        """Return the group of all ranks over a backend; all ranks call this together."""

        def first_reason(reason: Reason) -> Reason:
            return self.group.first_reason([reason])[0].reason

        if name not in self.side_groups:
            timeout = backends.group_timeout(assignment.config)
            made = backends.side_group(name, self.device, timeout, first_reason)
            self.side_groups[name] = made
        return self.side_groups[name]

    def begin_point(self) -> RankUse:
        """Return what the ranks have done and hold; all ranks call this together."""
        held = float(torch.cuda.memory_allocated())  # 0 where CUDA was not started
        rows = self.group.exchange([float(resident_bytes()), held])
        self.num_points += 1
        return RankUse(
            points_before=self.num_points - 1,
            host_bytes=[int(row[0]) for row in rows],
            device_bytes=[int(row[1]) for row in rows],
        )


def joined(assignment: Assignment) -> Joined:
    """Join the group of this rank's process, or return what it has joined for an earlier point.

    All ranks call this together. Raises Unavailable on all ranks if torch is built without the
    backend.
    """
    found = _joined.get(assignment.rendezvous)
    if found is None:
        found = _joined[assignment.rendezvous] = join(assignment)
    return found


def join(assignment: Assignment) -> Joined:
    config = assignment.config
    device = backends.join(config, assignment.place, assignment.world_size, assignment.rendezvous)
    handle = backends.control_group(backends.group_timeout(config))
    group = ControlGroup(handle, assignment.world_size)
    shares_by_mps = by_mps(config, assignment.slowdown)
    host = assignment.hosts[assignment.place.rank]
    devices = gather_devices(device, group, host, assignment.idle_pids, shares_by_mps)
    backends.warm_up(device)
    gc.freeze()  # collections between points need not search what has been imported
    return Joined(device, group, devices, make_controller(assignment))


def make_controller(assignment: Assignment) -> ThrottleController:
    """Return the controller of this rank's throttle, which is not yet applied."""
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


def forget_point() -> None:
    reset_compiler()
    free_unused()


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 where the kernel does not tell."""
    _, pages, *_ = read_text("/proc/self/statm").split() or (0, 0)
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


PROBED_BEFORE = "calls were probed before the first ones: part of what they load was loaded already"
"""A warning about first calls after those for a cost model or a throttle."""


def run_rank(assignment: Assignment) -> RankReport | None:
    """Run one point in one rank; rank 0 returns its report to the agent, others None.

    The point's memory is given back before the report: fresh ranks may measure beside this one.
    """
    report = run_point(assignment)
    forget_point()
    return report


def run_point(assignment: Assignment) -> RankReport | None:
    protect_streams()
    stopwatch = Stopwatch(tell=ignore if assignment.place.rank else entry.send_note)
    stopwatch.enter("init")
    config = assignment.config
    set_up_torch(assignment.threads, config.backend.env)
    kept = joined(assignment)
    device, group, controller = kept.device, kept.group, kept.controller
    rank_use = kept.begin_point()
    watch = GpuWatch(kept.devices)
    clock = make_clock(device, assignment.offset, watch.while_busy)
    warnings: dict[str, None] = {}  # in order, each once
    prober = make_prober(assignment, controller, clock, group, warnings)
    slowdown = None
    if max(assignment.slowdown) > 1 or by_mps(config, assignment.slowdown):
        stopwatch.enter("calibrate")
        slowdown = calibration.calibrate(prober, assignment.slowdown, device)
    rank = describe_rank(assignment, kept, prober)
    stopwatch.enter("build")
    cases = build_cases(assignment, rank)

    def report_of(reports: list[CaseRecord]) -> RankReport:
        measured = Measured(
            cases=reports,
            clock=clock.name,
            slowdown=slowdown,
            warnings=[*warnings, *collect_warnings(slowdown, cases, watch)],
            rank_devices=watch.devices.of_ranks,
            torch_settings=torch_settings(),
            rank_use=rank_use,
        )
        return RankReport(measured, stopwatch.began_s)

    def store(reports: list[CaseRecord]) -> None:
        store_so_far(report_of(reports), assignment.folder)

    run = RankRun(config, clock, group, controller, watch, stopwatch, noop if rank.index else store)
    with marked_by(clock.region), flushed_profiler(device.type):
        reports = run_cases(run, cases)
    warnings |= dict.fromkeys([*of_several_cases(config, reports), *odd_details(reports)])
    if config.profile is True and assignment.only is None:
        stopwatch.enter("profile")
        pairs = zip(cases, reports, strict=True)
        measured = [case for case, report in pairs if report.status == "ok"]
        path = trace_file(assignment.folder, rank.index)
        record_traces(measured, group.barrier, controller, device, path)
    stopwatch.enter("exit")
    warnings |= dict.fromkeys(unplanned(assignment, group, kept.devices.bound_to))
    # Nothing of the point runs on any rank after this barrier. Destroying a gloo group before the
    # process ends would take another 20 ms.
    group.barrier()
    if rank.index:
        return None
    return report_of(reports)


def build_cases(assignment: Assignment, rank: Rank) -> list[Case]:
    config = assignment.config
    cases = load_suites()[config.suite].build(config, rank)
    require_sound(cases, config)
    return cases if assignment.only is None else [keep_alone(cases, assignment.only)]


def collect_warnings(
    slowdown: SlowdownReport | None, cases: list[Case], watch: GpuWatch
) -> list[str]:
    warnings = calibration.warnings(slowdown) if slowdown else []
    for case in cases:
        warnings += case.warnings
    return warnings + watch.warnings


def unplanned(assignment: Assignment, group: ControlGroup, bound_to: Sequence[int]) -> list[str]:
    """Return in what ranks differ from the plan, such as "ranks 0, 1: cores 0, planned 0-3".

    `bound_to` are the cores on which this rank keeps itself, if any. All ranks call this together,
    at the end: a library may pin its process at its first use.
    """
    own, planned = limits(), assignment.limits
    pairs = {
        "cores": (core_list(own.cores), core_list(bound_to or planned.cores)),
        "CPU quota in cores": (own.cpu_quota or "none", planned.cpu_quota or "none"),
        "memory limit in bytes": (own.memory_bytes or "none", planned.memory_bytes or "none"),
        "threads": (torch.get_num_threads(), assignment.threads),
    }
    differences = [f"{name} {a}, planned {b}" for name, (a, b) in pairs.items() if a != b]
    ranks: dict[str, list[int]] = {}
    for rank, of_rank in enumerate(gather_json(differences, group.handle)):
        for difference in of_rank:
            ranks.setdefault(difference, []).append(rank)
    return [f"{named(alike)}: {difference}" for difference, alike in ranks.items()]


def make_prober(
    assignment: Assignment,
    controller: ThrottleController,
    clock: Clock,
    group: ControlGroup,
    warnings: dict[str, None],
) -> Prober:
    is_cold = assignment.config.measure.mode == COLD
    return Prober(
        rank=assignment.place.rank,
        controller=controller,
        worst=max(assignment.slowdown),
        clock=clock,
        peers=group,
        budget_s=assignment.config.measure.probe_seconds,
        on_use=partial(warnings.setdefault, PROBED_BEFORE) if is_cold else noop,
    )


def describe_rank(assignment: Assignment, kept: Joined, prober: Prober) -> Rank:
    """Return what the suite may know of this rank; all ranks call this together."""
    config = assignment.config
    place = assignment.place
    device = kept.device
    on_cpu = device.type == "cpu"
    sharers = place.local_world_size if on_cpu else config.hardware.ranks_per_device
    # All ranks exchange their values so that they decide alike.
    memory = exchange_named(
        kept.group.exchange,
        free=[available_bytes(device)],
        free_on_host=[host_available_bytes()],
        sharers=[sharers],
        host_sharers=[place.local_world_size],
    )
    return Rank(
        index=place.rank,
        world_size=assignment.world_size,
        sharers=int(max(memory["sharers"])[0]),
        device=device,
        seed=config.seed,
        available_bytes=min(memory["free"])[0],
        memory=PeakMemory(device),
        shares=tuple(map(config.hardware.share, assignment.slowdown)),
        seconds_of=prober.seconds_of,
        group=lambda name: kept.side_group(name, assignment),
        subgroup=partial(subgroup, backends.group_timeout(config)),
        by_mps=by_mps(config, assignment.slowdown),
        host_sharers=int(max(memory["host_sharers"])[0]),
        host_available_bytes=min(memory["free_on_host"])[0],
        hosts=assignment.hosts,
        folder=assignment.folder,
    )


def make_clock(
    device: torch.device, offset: Offset, while_busy: Callable[[], object] = noop
) -> Clock:
    """Return the clock that times calls on a device.

    A GPU has events that a tiny collective of the measured backend aligns; of the backends only
    NCCL certainly queues it and returns.
    """
    if device.type == "cpu":
        return HostClock(offset.at)
    token = torch.zeros(1, device=device)
    blocks = dist.get_backend() != "nccl"
    align = partial(dist.all_reduce, token)
    return CudaClock(torch.cuda, align, keep_gpu_busy, blocks, while_busy)
