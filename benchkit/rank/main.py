"""What one rank does with one point: join, build the cases, verify, measure, verify again, report."""

import functools
from dataclasses import asdict, fields
from typing import Any

import torch
import torch.distributed as dist

from benchkit.api.case import Case, Rank
from benchkit.api.memory import PeakMemory, available_bytes
from benchkit.api.regions import marked_by
from benchkit.api.registry import load_suites
from benchkit.api.schema import RunConfig
from benchkit.measure.clocks import Clock, CudaClock, HostClock
from benchkit.rank import backends
from benchkit.rank.assignment import Assignment, by_mps
from benchkit.rank.calibration import Prober, ThrottleController, calibrate
from benchkit.rank.control_group import Group
from benchkit.rank.profiling import record_traces, trace_file
from benchkit.rank.run_cases import Stopwatch, run_cases
from launch.agents.clock_sync import Offset
from launch.slowdown.throttle import NoThrottle, make_throttle


def run_rank(assignment: Assignment) -> dict[str, Any] | None:
    """The body of a rank; rank 0 returns the cases as the record stores them, others None."""
    stopwatch = Stopwatch()
    stopwatch.enter("init")
    torch.set_num_threads(assignment.threads)
    config = assignment.config
    device = backends.join(config, assignment.place, assignment.world_size, assignment.rendezvous)
    group = Group(backends.control_group(backends.group_timeout(config)), assignment.world_size)
    clock = make_clock(device, assignment.offset)
    controller, worst = make_controller(assignment), max(assignment.slowdown)
    prober = Prober(assignment.place.rank, controller, worst, clock, group, config.measure.probe_seconds)
    slowdown = None
    if max(assignment.slowdown) > 1 or by_mps(config, assignment.slowdown):
        stopwatch.enter("calibrate")
        slowdown = calibrate(prober, assignment.slowdown, device)
    rank = describe_rank(assignment, device, group, prober)
    stopwatch.enter("build")
    cases = load_suites()[config.suite].build(config, rank)
    require_sound(cases, config)
    with marked_by(clock.region):
        reports = run_cases(cases, config, clock, group, stopwatch, prober.controller)
    if config.profile:
        stopwatch.enter("profile")
        measured = [case for case, report in zip(cases, reports, strict=True) if report["status"] == "ok"]
        path = trace_file(assignment.folder, assignment.place.rank)
        record_traces(measured, group.barrier, prober.controller, device, path)
    stopwatch.enter("exit")
    group.barrier()  # then the process ends: destroying a gloo group takes another 20 ms, and nothing outlives it
    if assignment.place.rank:
        return None
    return {
        "cases": reports,
        "clock": clock.name,
        "began_s": stopwatch.began_s,
        "slowdown": slowdown.as_dict() if slowdown else None,
        "warnings": [
            *(slowdown.warnings() if slowdown else []),
            *(warning for case in cases for warning in case.warnings),
        ],
    }


def describe_rank(assignment: Assignment, device: torch.device, group: Group, prober: Prober) -> Rank:
    """What the suite may know; all ranks together."""
    config, place = assignment.config, assignment.place
    on_device = config.hardware.ranks_per_device if device.type == "cuda" else 1
    sharers = on_device if device.type == "cuda" else place.local_world_size
    first_reason = lambda reason: group.first_reason([reason])[0].reason  # noqa: E731
    side_group = lambda name: backends.side_group(name, device, backends.group_timeout(config), first_reason)  # noqa: E731
    memory = group.exchange([float(available_bytes(device)), float(sharers)])  # alike on all ranks, to decide alike
    return Rank(
        index=place.rank,
        world_size=assignment.world_size,
        sharers=int(max(row[1] for row in memory)),
        device=device,
        seed=config.seed,
        available_bytes=min(row[0] for row in memory),
        memory=PeakMemory(device),
        shares=tuple(100 / on_device / factor for factor in assignment.slowdown),
        seconds_of=prober.seconds_of,
        group=functools.cache(side_group),
    )


def make_controller(assignment: Assignment) -> ThrottleController:
    """This rank's throttle, not yet applied."""
    config, slowdown = assignment.config, assignment.slowdown
    factor = slowdown[assignment.place.rank]
    if by_mps(config, slowdown):  # where nobody is slowed there is nothing to let go of
        return ThrottleController(NoThrottle("mps", switchable=max(slowdown) == 1), factor, factor)
    throttle = make_throttle(config.hardware.slow_by, assignment.threads, factor) if factor > 1 else NoThrottle()
    return ThrottleController(throttle, factor, factor)


def make_clock(device: torch.device, offset: Offset) -> Clock:
    """Events for a GPU, aligned by a tiny collective of the measured backend; the host's clock for a CPU."""
    if device.type == "cpu":
        return HostClock(offset.at)
    token = torch.zeros(1, device=device)
    return CudaClock(torch.cuda, align=lambda: dist.all_reduce(token))


def require_sound(cases: list[Case], config: RunConfig) -> None:
    """Raises ValueError where a suite returned no case, a label that is the name of a key or of a column, or a
    reference between cases that leads nowhere."""
    if not cases:
        raise ValueError(f"suite {config.suite} returned no case")
    taken = {item.name for item in fields(config)} | {"status", "device"}
    for case in cases:
        if clash := taken & set(case.labels):
            raise ValueError(f"suite {config.suite}: a label cannot be named {min(clash)}, which is a key or a column")
    try:
        require_references(cases)
    except ValueError as error:
        raise ValueError(f"suite {config.suite}: {error}") from None


def require_references(cases: list[Case]) -> None:
    """Raises ValueError where two cases have one name, or a case refers to one that is not in the list."""
    names = [case.name for case in cases if case.name]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two cases are named {twice[0]}; allowed are names that differ")
    for case in cases:
        wanted = {"against": case.against, **{f"parts.{role}": name for role, name in asdict(case.parts).items()}}
        for where, name in wanted.items():
            if name and name not in names:
                known = ", ".join(names) or "none: no case has a name"
                raise ValueError(f"case {case.name or dict(case.labels)}: {where}={name}: allowed are {known}")
