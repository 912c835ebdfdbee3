"""One point from configuration to record: checks the folder, runs the ranks, stores the outcome.

All agents of a run go through the same points in step; only agent 0 writes.
"""

import contextlib
import logging
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchkit import environment, record
from benchkit.errors import HostBusy
from benchkit.point import placement, recording
from benchkit.point.agents import WAIT, AgentGroup, current_agents
from benchkit.point.claim import POINT_FILE, claimed
from benchkit.point.local_ranks import fork_ranks, network_of
from benchkit.point.outcome import classify, error_report
from benchkit.point.placement import Placement
from benchkit.point.point import Point, Report
from launch import signals
from launch.agents import clock_sync
from launch.agents.group import EXCHANGE_TIMEOUT_S
from launch.agents.member import Lost, SweepEnds

log = logging.getLogger("benchkit")
ENDING_S = 15.0
"""Time after a point's timeout in which an agent must end its ranks and report, or it is lost."""
CAUSE_S = 0.5
"""How long after a signal to wait for news of another agent's death, which may be its cause."""


def run_and_report(point: Point, report: Report) -> str:
    """Runs one point and returns its status; agent 0 also reports its record."""
    agents = current_agents().agents
    try:
        make_folder(point.folder)
        held: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if agents.first:  # an earlier attempt may still run in another job
            held = claimed(point.folder, POINT_FILE, anywhere=True)
        with held:
            result = run_point(point)
    except Exception as error:
        if len(agents.members) > 1:  # the others must not wait for this agent at the next point
            raise SweepEnds(f"{agents.me} failed: {error!r}") from error
        log.error("%s: no record: %r", " ".join(point.overrides), error)
        return "error"
    if agents.first:
        report(result)
    return str(result["status"])


def make_folder(folder: Path) -> None:
    """Makes a point's folder.

    Raises:
        SweepEnds: the disk is full or not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = record.shortage(folder)
    except OSError as error:
        problem = f"{folder}: {error.strerror}"
    if problem:
        raise SweepEnds(problem)


def run_point(point: Point) -> dict[str, Any]:
    """Runs one point and returns its record.

    Agent 0 writes the record from the start, first with the status `running`.
    """
    began_s = time.perf_counter()
    group = current_agents()
    plan = placement.place_ranks(point.config, group)
    result = recording.new_record(point, plan)
    if group.agents.first:
        result["attempt"] = recording.set_aside(point.folder)
    try:
        result |= attempt(point, group, plan, result)
    except HostBusy as busy:
        result |= {"status": "error", "error": error_report(str(busy))}
    except Lost as lost:
        result |= lost_report(lost)
        if lost.nodes:
            raise SweepEnds(str(lost)) from None
    except KeyboardInterrupt as error:
        signals.ignore_signals()
        stop = signals.to_stop_request(error)
        result |= {"status": stop.status, "error": error_report(str(stop))}
        recording.save(result, point.folder, group)  # at once: SIGKILL may follow
        group.agents.stop(stop)
        if cause := group.agents.lost_now(CAUSE_S):
            result |= lost_report(cause)
        raise
    finally:
        phases_s = result["phases_s"]
        phases_s["total"] = round(time.perf_counter() - began_s - phases_s.get(WAIT, 0.0), 6)
        result["finished_at"] = recording.now()
        problem = recording.save(result, point.folder, group)
    if problem:
        raise SweepEnds(problem)
    return result


def attempt(
    point: Point, group: AgentGroup, plan: Placement, result: dict[str, Any]
) -> dict[str, Any]:
    """Runs the ranks of one point in step with the other agents.

    Returns:
        What the attempt adds to the record `result`.
    """
    agents = group.agents
    config = point.config
    unsaved = recording.save(result, point.folder, group)
    problems = agents.exchange(unsaved, EXCHANGE_TIMEOUT_S)
    if problem := next(filter(None, problems), ""):
        raise SweepEnds(problem)
    if plan.problem:
        return {"status": "unavailable", "error": error_report(plan.problem)}
    waiting = group.hosts_to_ourselves(config.host_wait_s, result["phases_s"])
    with group.rendezvous() as rendezvous, waiting as warnings:
        group.clock.look(agents)
        offset = group.clock.offset()
        forked_s = time.perf_counter()
        oom_kills = environment.oom_kills()
        outcome = fork_ranks(config, group, plan, point.folder, rendezvous, offset)
        own = {
            "failure": asdict(outcome.failure) if outcome.failure else None,
            "out_of_memory": environment.oom_kills() > oom_kills,
        }
        deadline_s = forked_s + config.timeout_s + ENDING_S
        reports = agents.exchange(own, deadline_s - time.perf_counter())
        group.clock.look(agents)
        errors_s = agents.exchange(group.clock.error_s(offset), EXCHANGE_TIMEOUT_S)
    estimator = clock_sync.SHARED if group.clock_is_shared else clock_sync.ESTIMATOR
    classified = classify(outcome.results.get(0), reports, forked_s)
    return classified | {
        "private_network": network_of(config, group) is not None,
        "start_clock": {"estimator": estimator, "uncertainty_s": max(errors_s)},
        "phases_s": result["phases_s"] | classified.get("phases_s", {}),
        "warnings": [*result["warnings"], *warnings, *classified.get("warnings", ())],
    }


def lost_report(lost: Lost) -> dict[str, Any]:
    """Returns what the loss of agents in the middle of a point adds to its record."""
    return {"status": "crash", "error": error_report(str(lost), host=lost.members[0].host)}
