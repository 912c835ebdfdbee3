"""What one rank does: joins, builds the cases, verifies, measures, verifies again and reports."""

from functools import partial

import torch
import torch.distributed as dist

from benchkit.api.case import Case, Rank, noop
from benchkit.api.gather import gather_json
from benchkit.api.groups import COLD
from benchkit.api.memory import PeakMemory, available_bytes, host_available_bytes
from benchkit.api.regions import marked_by
from benchkit.api.registry import load_suites
from benchkit.api.torch_internals import keep_gpu_busy
from benchkit.measure.clocks import Clock, HostClock
from benchkit.measure.cuda_clock import CudaClock
from benchkit.rank import calibration
from benchkit.rank.around_samples import flushed_profiler
from benchkit.rank.assignment import Assignment, by_mps, keep_alone
from benchkit.rank.control_group import ControlGroup
from benchkit.rank.devices import torch_settings
from benchkit.rank.first_calls import of_several_cases
from benchkit.rank.gpu_warnings import named
from benchkit.rank.gpu_watch import GpuWatch
from benchkit.rank.joined import Joined, joined
from benchkit.rank.prober import Prober
from benchkit.rank.profiling import record_traces, trace_file
from benchkit.rank.report import RankReport
from benchkit.rank.run_cases import run_cases
from benchkit.rank.soundness import require_sound
from benchkit.rank.stopwatch import Stopwatch, ignore
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.rank.torch_settings import set_up_torch
from benchkit.record.record import SlowdownReport
from benchkit.streams import protect_streams
from launch.agents.clock_sync import Offset
from launch.ranks import notes
from launch.topology import core_list, limits

PROBED_BEFORE = "calls were probed before the first ones: part of what they load was loaded already"
"""A warning about first calls of a suite that needs a cost model, or of ranks that are slowed."""


def run_rank(assignment: Assignment) -> RankReport | None:
    """Runs one point in one rank; rank 0 returns its report to the agent, others return None."""
    protect_streams()
    stopwatch = Stopwatch(tell=ignore if assignment.place.rank else notes.send)
    stopwatch.enter("init")
    config = assignment.config
    set_up_torch(assignment.threads, config.backend.env)
    kept = joined(assignment)
    device, group, controller = kept.device, kept.group, kept.controller
    rank_use = kept.begin_point()
    watch = GpuWatch(kept.devices)
    clock = make_clock(device, assignment.offset)
    warnings: dict[str, None] = {}  # in order, each once
    prober = make_prober(assignment, controller, clock, group, warnings)
    slowdown = None
    if max(assignment.slowdown) > 1 or by_mps(config, assignment.slowdown):
        stopwatch.enter("calibrate")
        slowdown = calibration.calibrate(prober, assignment.slowdown, device)
    rank = describe_rank(assignment, kept, prober)
    stopwatch.enter("build")
    cases = build_cases(assignment, rank)
    with marked_by(clock.region), flushed_profiler(device.type):
        reports = run_cases(cases, config, clock, group, stopwatch, controller, watch)
    warnings |= dict.fromkeys(of_several_cases(config, reports))
    if config.profile is True and assignment.only is None:
        stopwatch.enter("profile")
        pairs = zip(cases, reports, strict=True)
        measured = [case for case, report in pairs if report.status == "ok"]
        path = trace_file(assignment.folder, rank.index)
        record_traces(measured, group.barrier, controller, device, path)
    stopwatch.enter("exit")
    warnings |= dict.fromkeys(unplanned(assignment, kept.group))
    # Nothing of the point runs on any rank after this barrier. Destroying a gloo group before the
    # process ends would take another 20 ms.
    group.barrier()
    if rank.index:
        return None
    return RankReport(
        cases=reports, clock=clock.name, began_s=stopwatch.began_s, slowdown=slowdown,
        warnings=[*warnings, *collect_warnings(slowdown, cases, watch)], rank_use=rank_use,
        rank_devices=watch.devices.of_ranks, torch_settings=torch_settings(),
    )  # fmt: skip


def build_cases(assignment: Assignment, rank: Rank) -> list[Case]:
    """Returns the suite's cases, or the one that is timed alone."""
    config = assignment.config
    cases = load_suites()[config.suite].build(config, rank)
    require_sound(cases, config)
    return cases if assignment.only is None else [keep_alone(cases, assignment.only)]


def collect_warnings(
    slowdown: SlowdownReport | None, cases: list[Case], watch: GpuWatch
) -> list[str]:
    """Returns the warnings of the calibration, if there was one, of all cases and of the GPUs."""
    warnings = calibration.warnings(slowdown) if slowdown else []
    for case in cases:
        warnings += case.warnings
    return warnings + watch.warnings


def unplanned(assignment: Assignment, group: ControlGroup) -> list[str]:
    """Returns in what ranks differ from the plan, such as "ranks 0, 1: cores 0, planned 0-3".

    All ranks call this together, at the end: a library may pin its process at its first use.
    """
    own, planned = limits(), assignment.limits
    pairs = {
        "cores": (core_list(own.cores), core_list(planned.cores)),
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
    """Returns the prober of this rank, with its throttle not yet applied.

    Its use before first calls adds to `warnings`.
    """
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
    """Returns what the suite may know of this rank; all ranks call this together."""
    config = assignment.config
    place = assignment.place
    device = kept.device
    on_device = config.hardware.ranks_per_device if device.type == "cuda" else 1
    sharers = on_device if device.type == "cuda" else place.local_world_size
    free = [float(available_bytes(device)), float(host_available_bytes())]
    # All ranks exchange their values so that they decide alike.
    memory = kept.group.exchange([*free, float(sharers), float(place.local_world_size)])
    return Rank(
        index=place.rank,
        world_size=assignment.world_size,
        sharers=int(max(row[2] for row in memory)),
        device=device,
        seed=config.seed,
        available_bytes=min(row[0] for row in memory),
        memory=PeakMemory(device),
        shares=tuple(map(config.hardware.share, assignment.slowdown)),
        seconds_of=prober.seconds_of,
        group=lambda name: kept.side_group(name, assignment),
        by_mps=by_mps(config, assignment.slowdown),
        host_sharers=int(max(row[3] for row in memory)),
        host_available_bytes=min(row[1] for row in memory),
        hosts=assignment.hosts,
        folder=assignment.folder,
    )


def make_clock(device: torch.device, offset: Offset) -> Clock:
    """Returns the clock that times calls on a device.

    A CPU has the host's clock. A GPU has events that a tiny collective of the measured backend
    aligns; of the backends only NCCL certainly queues it and returns.
    """
    if device.type == "cpu":
        return HostClock(offset.at)
    token = torch.zeros(1, device=device)
    blocks = dist.get_backend() != "nccl"
    return CudaClock(torch.cuda, lambda: dist.all_reduce(token), keep_gpu_busy, blocks)
