"""One point from configuration to record: check the folder, run the ranks, store the outcome.

All agents of a run go through the same points in step; only agent 0 writes.
"""

import contextlib
import datetime
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from benchkit import environment
from benchkit.api.keys import RunConfig, as_dict
from benchkit.config.identity import point_id
from benchkit.errors import HostBusy
from benchkit.point import placement
from benchkit.point.agents import WAIT, AgentGroup, form_group, heard
from benchkit.point.claim import POINT_FILE, claimed
from benchkit.point.placement import Placement
from benchkit.point.point import Point, Report, error_report
from benchkit.point.ranks import KeptRanks, measure_point
from benchkit.record import files
from benchkit.record.naming import printable
from benchkit.record.record import Comparison, Outcome, Record, SlowdownReport
from benchkit.selftest import floor
from launch import signals, topology
from launch.agents.channel import Lost, SweepEnds
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents

COMPARISON_VARIABLE = "BENCHKIT_COMPARISON"
"""Environment variable with the Comparison, as JSON, that a run belongs to.

It is no key of the configuration, because runs of older code, which lacks such a key, are compared
as well.
"""
RETRY_AFTER_S = (0.1, 1.0, 3.0)


def set_aside(folder: Path) -> int:
    """Rename the files of an earlier attempt at a point; return the number of the next one."""
    names = [re.match(r"attempt_(\d+)\.", path.name) for path in folder.glob("attempt_*.json")]
    numbers = [int(name[1]) for name in names if name]
    number = 1 + max(numbers, default=0)
    if not (folder / files.FILE_NAME).exists():
        return number
    prefix = f"attempt_{number}"
    for path in [*folder.glob("*rank_*"), *folder.glob("alone_*")]:  # logs and traces
        if not path.name.startswith("attempt_"):
            path.rename(folder / f"{prefix}_{path.name}")
    # The record goes last: once it has its new name, so have all other files.
    (folder / files.FILE_NAME).rename(folder / f"{prefix}.json")
    return number + 1


def store(record: Record, folder: Path) -> None:
    """Write a record to a folder that may be gone; on failure it retries for some seconds.

    Raises:
        OSError: the record cannot be written.
    """
    for pause_s in RETRY_AFTER_S:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.write(record, folder)
            return
        except OSError:
            time.sleep(pause_s)
    files.write(record, folder)


def keep_elsewhere(record: Record) -> Path | None:
    """Write a record to a new temporary folder; return its path, or None if that fails too."""
    with contextlib.suppress(OSError):
        return files.write(record, Path(tempfile.mkdtemp(prefix="benchkit-record-")))
    return None


def save(record: Record, folder: Path, group: AgentGroup) -> str:
    """Write the record on agent 0.

    Returns:
        "" on success; else why the record cannot be written and where it is kept instead.
    """
    if not group.agents.first:
        return ""
    try:
        store(record, folder)
    except OSError as error:
        kept = keep_elsewhere(record)
        where = f"; it is in {kept}" if kept else ""
        return f"{folder}: record not written: {error.strerror or error}{where}"
    return ""


def new_record(point: Point, plan: Placement, attempt: int = 1) -> Record:
    """Return the record as it stands before any rank runs."""
    config = point.config
    plain = as_dict(config)
    return Record(
        point_id=point_id(plain, plan.world_size),
        suite=config.suite,
        title=config.title(),
        status="running",
        config=plain,
        overrides=list(map(printable, point.overrides)),
        attempt=attempt,
        repetition=point.repetition,
        resumed_with=point.resumed_with,
        comparison=current_comparison(),
        world_size=plan.world_size,
        threads_per_rank=plan.threads,
        cores_per_rank=plan.cores_per_rank,
        launched_by=topology.detect_launcher().by,
        agents=plan.agents,
        slowdown=SlowdownReport(asked=list(plan.slowdown)),
        warnings=[*environment.version_differences(plan.agents), *plan.warnings],
        started_at=now(),
        environment=environment.describe(),
    )


def finished(record: Record, phases_s: Mapping[str, float]) -> Record:
    """Return the record of a point that has ended with its end, and the noise floor it is over.

    Args:
        phases_s: durations of the phases that only the agent knows, in seconds; `total` is of all
            but the wait for the host.
    """
    spent_s = {**record.phases_s, **phases_s}
    return replace(record, finished_at=now(), phases_s=spent_s, noise_floor=floor.floor_of(record))


def current_comparison() -> Comparison | None:
    """Return the comparison that this run belongs to; None for a run on its own."""
    text = os.environ.get(COMPARISON_VARIABLE)
    return msgspec.json.decode(text, type=Comparison) if text else None


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


log = logging.getLogger("benchkit")
CAUSE_S = 2.0
"""How long after a signal to wait for news of another agent's death, which may be its cause."""


def run_points(points: Sequence[Point], agents: Agents, report: Report) -> Iterator[str]:
    """Run points one after another and yield the status of each as it ends."""
    if points:
        with KeptRanks(form_group(agents)) as kept:
            if agents.first and (line := crowding([point.config for point in points], kept.group)):
                log.warning(line)
            for point in points:
                yield run_and_report(point, report, kept)


def crowding(configs: Sequence[RunConfig], group: AgentGroup) -> str:
    """Return the line on points with more threads than cores; "" where there are none."""
    plans = [placement.place_ranks(config, group) for config in configs]
    crowded = [plan for plan in plans if plan.crowding]
    if not crowded:
        return ""
    worst = max(crowded, key=lambda plan: plan.threads / plan.cores_per_rank).crowding
    return f"more threads than cores in {len(crowded)} of {len(plans)} points: {worst}"


def run_and_report(point: Point, report: Report, kept: KeptRanks) -> str:
    """Run one point and return its status; agent 0 also reports its record."""
    agents = kept.group.agents
    try:
        make_folder(point.folder)
        held: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if agents.first:  # an earlier attempt may still run in another job
            held = claimed(point.folder, POINT_FILE, anywhere=True)
        with held:
            result = run_point(point, kept)
    except Exception as error:
        if len(agents.members) > 1:  # the others must not wait for this agent at the next point
            raise SweepEnds(f"{agents.me} failed: {error!r}") from error
        log.error("%s: no record: %r", " ".join(point.overrides), error)
        return "error"
    if agents.first:
        report(result)
    return result.status


def make_folder(folder: Path) -> None:
    """Make a point's folder.

    Raises:
        SweepEnds: the disk is full or not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = files.shortage(folder)
    except OSError as error:
        problem = f"{folder}: {error.strerror}"
    if problem:
        raise SweepEnds(problem)


def run_point(point: Point, kept: KeptRanks) -> Record:
    """Run one point and return its record.

    Agent 0 writes the record from the start, first with the status `running`.
    """
    began_s = time.perf_counter()
    group = kept.group
    plan = placement.place_ranks(point.config, group)
    result = new_record(point, plan, set_aside(point.folder) if group.agents.first else 1)
    phases_s: dict[str, float] = {}
    sweep_ends = ""
    num_losses = len(group.agents.losses)
    try:
        outcome, sweep_ends = attempt_outcome(point, kept, plan, result, phases_s)
        result = result.ended(outcome)
    except KeyboardInterrupt as error:
        signals.ignore_signals()
        stop = signals.to_stop_request(error)
        result = result.ended(Outcome(status=stop.status, error=error_report(str(stop))))
        save(result, point.folder, group)  # at once: SIGKILL may follow
        group.agents.stop(stop)
        if losses := group.agents.losses_after(num_losses, CAUSE_S):
            result = result.ended(lost_outcome(losses[0]))
        raise
    finally:
        with signals.defer_signals():  # what has ended must not stay `running`
            total_s = time.perf_counter() - began_s - phases_s.get(WAIT, 0.0)
            phases_s["total"] = round(total_s, 6)
            result = finished(result, phases_s)
            unsaved = save(result, point.folder, group)
    if problem := unsaved or sweep_ends:
        raise SweepEnds(problem)
    return result


def attempt_outcome(
    point: Point,
    kept: KeptRanks,
    plan: Placement,
    begun: Record,
    phases_s: dict[str, float],
) -> tuple[Outcome, str]:
    """Return how an attempt ended and, if the sweep cannot go on after it, why; else ""."""
    try:
        return attempt(point, kept, plan, begun, phases_s), ""
    except HostBusy as busy:
        return Outcome(status="error", error=error_report(str(busy))), ""
    except Lost as lost:
        return lost_outcome(lost), str(lost) if lost.host_is_silent else ""


def attempt(
    point: Point,
    kept: KeptRanks,
    plan: Placement,
    begun: Record,
    phases_s: dict[str, float],
) -> Outcome:
    """Run the ranks of one point in step with the other agents, once the hosts are free.

    Args:
        kept: ranks that stay from point to point.
        plan: which rank runs where.
        begun: the record as it stands, which agent 0 stores first.
        phases_s: receives how long the agent waited for its hosts, in seconds.
    """
    group = kept.group
    unsaved = save(begun, point.folder, group)
    problems = heard(group.agents.exchange(unsaved, EXCHANGE_TIMEOUT_S), list[str])
    if problem := next(filter(None, problems), ""):
        raise SweepEnds(problem)
    if plan.problem:
        return Outcome(status="unavailable", error=error_report(plan.problem))
    with group.hosts_to_ourselves(point.config.host_wait_s, phases_s) as warnings:
        outcome = measure_point(point, plan, kept)
    return replace(outcome, warnings=[*warnings, *outcome.warnings])


def lost_outcome(lost: Lost) -> Outcome:
    """Return what the loss of agents in the middle of a point adds to its record."""
    return Outcome(status="crash", error=error_report(str(lost), host=lost.members[0].host))
