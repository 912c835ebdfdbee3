"""One point from configuration to record: checks what is here, starts the ranks, and says how it went.

Every agent of a run goes through the same points in step; agent 0 alone writes.
"""

import contextlib
import logging
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchkit import environment, record
from benchkit.api.registry import start_fork_server
from benchkit.api.schema import RunConfig
from benchkit.errors import HostBusy, Unavailable
from benchkit.point import outcome as verdict
from benchkit.point import placement, recording
from benchkit.point.agents import WAIT, AgentGroup, current_agents
from benchkit.point.claim import POINT_FILE, claimed
from benchkit.point.outcome import error_report
from benchkit.point.placement import Placement
from benchkit.point.point import Point, Report
from benchkit.rank.assignment import Assignment, by_mps
from benchkit.rank.rendezvous import Rendezvous
from launch import signals
from launch.agents import clock_sync
from launch.agents.clock_sync import Offset
from launch.agents.group import EXCHANGE_TIMEOUT_S
from launch.agents.member import Lost, SweepEnds
from launch.ranks import start
from launch.ranks.failure import Failure
from launch.ranks.private_network import PrivateNetwork
from launch.ranks.watch import Outcome
from launch.slowdown import cgroup, mps

log = logging.getLogger("benchkit")
ENDING_S = 15.0
"""After a point's time-out, how long an agent may take to end its ranks and say so; then it is lost."""
CAUSE_S = 0.5
"""After a signal, how long the death of another agent, which may be why it came, can take to be known."""


def run_and_report(point: Point, report: Report) -> str:
    """Runs one point and returns its status; agent 0 also reports its record."""
    agents = current_agents().agents
    try:
        make_folder(point.folder)
        held = claimed(point.folder, POINT_FILE, anywhere=True) if agents.first else contextlib.nullcontext()
        with held:  # an earlier attempt may still run, in a job of its own
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
    """Makes a point's folder; raises SweepEnds where the disk is full, or cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        problem = record.shortage(folder)
    except OSError as error:
        problem = f"{folder}: {error.strerror}"
    if problem:
        raise SweepEnds(problem)


def run_point(point: Point) -> dict[str, Any]:
    """Runs one point and returns its record, which agent 0 writes from the start, first as `running`."""
    began_s = time.perf_counter()
    here = current_agents()
    plan = placement.place_ranks(point.config, here)
    result = recording.new_record(point, plan)
    if here.agents.first:
        result["attempt"] = recording.set_aside(point.folder)
    try:
        result |= attempt(point, here, plan, result)
    except HostBusy as busy:
        result |= {"status": "error", "error": error_report(str(busy))}
    except Lost as lost:
        result |= lost_report(lost)
        if lost.nodes:
            raise SweepEnds(str(lost)) from None
    except KeyboardInterrupt as error:
        signals.ignore_signals()
        told = signals.to_stop_request(error)
        result |= {"status": told.status, "error": error_report(str(told))}
        recording.save(result, point.folder, here)  # at once: what follows a signal may be SIGKILL
        here.agents.stop(told)
        if cause := here.agents.lost_now(CAUSE_S):
            result |= lost_report(cause)
        raise
    finally:
        phases_s = result["phases_s"]
        phases_s["total"] = round(time.perf_counter() - began_s - phases_s.get(WAIT, 0.0), 6)
        result["finished_at"] = recording.now()
        kept = recording.save(result, point.folder, here)
    if kept:
        raise SweepEnds(kept)
    return result


def attempt(point: Point, group: AgentGroup, plan: Placement, result: dict[str, Any]) -> dict[str, Any]:
    """Runs the ranks of one point, in step with the other agents; returns what that adds to the record."""
    agents, config = group.agents, point.config
    if problem := next(
        filter(None, agents.exchange(recording.save(result, point.folder, group), EXCHANGE_TIMEOUT_S)), ""
    ):
        raise SweepEnds(problem)
    if plan.problem:
        return {"status": "unavailable", "error": error_report(plan.problem)}
    waiting = group.hosts_to_ourselves(config.host_wait_s, result["phases_s"])
    with group.rendezvous() as rendezvous, waiting as warnings:
        group.clock.look(agents)
        used, forked_s, oom_kills = group.clock.offset(), time.perf_counter(), environment.oom_kills()
        outcome = fork_ranks(config, group, plan, point.folder, rendezvous, used)
        own = {
            "failure": asdict(outcome.failure) if outcome.failure else None,
            "out_of_memory": environment.oom_kills() > oom_kills,
        }
        told = agents.exchange(own, forked_s + config.timeout_s + ENDING_S - time.perf_counter())
        group.clock.look(agents)
        errors_s = agents.exchange(group.clock.error_s(used), EXCHANGE_TIMEOUT_S)
    estimator = clock_sync.SHARED if group.clock_is_shared else clock_sync.ESTIMATOR
    reported = verdict.report(outcome.results.get(0), told, forked_s)
    return reported | {
        "private_network": network_of(config, group) is not None,
        "start_clock": {"estimator": estimator, "uncertainty_s": max(errors_s)},
        "phases_s": result["phases_s"] | reported.get("phases_s", {}),
        "warnings": [*result["warnings"], *warnings, *reported.get("warnings", ())],
    }


def network_of(config: RunConfig, group: AgentGroup) -> PrivateNetwork | None:
    """The network that the ranks of a point use; None: the host's, as GPUs' libraries expect."""
    return group.network if config.private_network and config.hardware.device == "cpu" else None


def fork_ranks(
    config: RunConfig, group: AgentGroup, plan: Placement, folder: Path, rendezvous: Rendezvous, offset: Offset
) -> Outcome:  # fmt: skip
    """Starts this agent's ranks of one point and waits for their end, or that of others; never raises an Exception."""
    agents, host = group.agents, group.agents.me.host
    try:
        if config.start_method == "forkserver":
            start_fork_server([config.suite])
        with mps.daemon(by_mps(config, plan.slowdown), len(group.on_host_of(agents.me))) as shares:
            outcome = start.run_ranks(
                "benchkit.rank.main:run_rank",
                [
                    Assignment(config, place, plan.world_size, plan.threads, plan.slowdown, rendezvous, offset, folder)
                    for place in plan.places
                ],
                environments=[
                    shares | rendezvous.environment() | placement.rank_environment(config, place, plan)
                    for place in plan.places
                ],
                folder=folder,
                timeout_s=config.timeout_s,
                start_method=config.start_method,
                first_rank=plan.places[0].rank,
                agents=agents,
                network=network_of(config, group),
            )
    except (Unavailable, mps.MpsUnavailable) as error:
        outcome = Outcome(failure=Failure(None, "exception", str(error), type=type(error).__name__))
    except Exception as error:  # ours, or the machine's, as when it can start no process: the next point may do better
        text, trace = f"the agent failed: {error}", traceback.format_exc()
        outcome = Outcome(failure=Failure(None, "exception", text, type=type(error).__name__, traceback=trace))
    finally:
        if max(plan.slowdown) > 1:
            cgroup.remove_abandoned()
    if outcome.failure:
        agents.alarm(outcome.failure.kind)
        outcome.failure = verdict.placed(outcome.failure, host, offset)
    return outcome


def lost_report(lost: Lost) -> dict[str, Any]:
    """What the loss of agents in the middle of a point adds to its record."""
    return {"status": "crash", "error": error_report(str(lost), host=lost.members[0].host)}
