"""One point from configuration to record: checks the folder, runs the ranks, stores the outcome.

All agents of a run go through the same points in step; only agent 0 writes.
"""

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchkit.api.schema import RunConfig
from benchkit.errors import HostBusy
from benchkit.point import placement, recording
from benchkit.point.agents import WAIT, AgentGroup, heard
from benchkit.point.claim import POINT_FILE, claimed
from benchkit.point.forming import form_group
from benchkit.point.kept_ranks import KeptRanks
from benchkit.point.outcome import error_report
from benchkit.point.placement import Placement
from benchkit.point.point import Point, Report
from benchkit.point.together import measure_point
from benchkit.record import files
from benchkit.record.record import Outcome, Record
from launch import signals
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents
from launch.agents.member import Lost, SweepEnds

log = logging.getLogger("benchkit")
CAUSE_S = 2.0
"""How long after a signal to wait for news of another agent's death, which may be its cause."""


def run_points(points: Sequence[Point], agents: Agents, report: Report) -> Iterator[str]:
    """Runs points one after another and yields the status of each as it ends."""
    if points:
        with KeptRanks(form_group(agents)) as kept:
            if agents.first and (line := crowding([point.config for point in points], kept.group)):
                log.warning(line)
            for point in points:
                yield run_and_report(point, report, kept)


def crowding(configs: Sequence[RunConfig], group: AgentGroup) -> str:
    """Returns the line on points with more threads than cores; "" where there are none."""
    plans = [placement.place_ranks(config, group) for config in configs]
    crowded = [plan for plan in plans if plan.crowding]
    if not crowded:
        return ""
    worst = max(crowded, key=lambda plan: plan.threads / plan.cores_per_rank).crowding
    return f"more threads than cores in {len(crowded)} of {len(plans)} points: {worst}"


def run_and_report(point: Point, report: Report, kept: KeptRanks) -> str:
    """Runs one point and returns its status; agent 0 also reports its record."""
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
    """Makes a point's folder.

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
    """Runs one point and returns its record.

    Agent 0 writes the record from the start, first with the status `running`.
    """
    began_s = time.perf_counter()
    group = kept.group
    plan = placement.place_ranks(point.config, group)
    result = recording.new_record(point, plan)
    if group.agents.first:
        result = replace(result, attempt=recording.set_aside(point.folder))
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
        recording.save(result, point.folder, group)  # at once: SIGKILL may follow
        group.agents.stop(stop)
        if losses := group.agents.losses_after(num_losses, CAUSE_S):
            result = result.ended(lost_outcome(losses[0]))
        raise
    finally:
        with signals.defer_signals():  # what has ended must not stay `running`
            total_s = time.perf_counter() - began_s - phases_s.get(WAIT, 0.0)
            phases_s["total"] = round(total_s, 6)
            result = recording.finished(result, phases_s)
            unsaved = recording.save(result, point.folder, group)
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
    """Returns how an attempt ended and, if the sweep cannot go on after it, why; else ""."""
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
    """Runs the ranks of one point in step with the other agents, once the hosts are free.

    Args:
        point: to run.
        kept: ranks that stay from point to point.
        plan: which rank runs where.
        begun: the record as it stands, which agent 0 stores first.
        phases_s: receives how long the agent waited for its hosts, in seconds.
    """
    group = kept.group
    unsaved = recording.save(begun, point.folder, group)
    problems = heard(group.agents.exchange(unsaved, EXCHANGE_TIMEOUT_S), list[str])
    if problem := next(filter(None, problems), ""):
        raise SweepEnds(problem)
    if plan.problem:
        return Outcome(status="unavailable", error=error_report(plan.problem))
    with group.hosts_to_ourselves(point.config.host_wait_s, phases_s) as warnings:
        outcome = measure_point(point, plan, kept)
    return replace(outcome, warnings=[*warnings, *outcome.warnings])


def lost_outcome(lost: Lost) -> Outcome:
    """Returns what the loss of agents in the middle of a point adds to its record."""
    return Outcome(status="crash", error=error_report(str(lost), host=lost.members[0].host))
