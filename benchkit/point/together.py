"""Measures one point with the ranks of all agents: in turns, alone, and in fresh ranks."""

import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from benchkit import environment
from benchkit.api.groups import GRAPH
from benchkit.point import alone
from benchkit.point.agents import heard
from benchkit.point.kept_ranks import KeptRanks
from benchkit.point.local_ranks import LocalRanks, Task, fresh_ranks, network_of
from benchkit.point.outcome import AgentEnd, classify
from benchkit.point.placement import Placement
from benchkit.point.point import Point
from benchkit.rank.report import RankReport
from benchkit.record.case import CaseRecord, Labels
from benchkit.record.record import Outcome, StartClock
from launch.agents import clock_sync
from launch.agents.group import EXCHANGE_TIMEOUT_S

ENDING_S = 15.0
"""Time after a point's timeout in which an agent must end its ranks and report, or it is lost."""


def measure_point(point: Point, plan: Placement, kept: KeptRanks) -> Outcome:
    """Measures a point in ranks that stay or in fresh ones; all agents call this together."""
    config = point.config
    with kept.for_point(config, plan) as ranks:
        outcome = run_together(point, plan, ranks)
        reported_s = time.perf_counter()
    phases_s = dict(outcome.phases_s)
    if "exit" in phases_s:
        phases_s["exit"] = round(phases_s["exit"] + time.perf_counter() - reported_s, 6)
    outcome = replace(outcome, phases_s=phases_s)

    def run_fresh(name: str, only: Labels | None = None) -> Outcome:
        folder = point.folder / name
        folder.mkdir(exist_ok=True)
        with fresh_ranks(kept.group) as ranks:
            return run_together(replace(point, folder=folder), plan, ranks, only, kept.idle_pids)

    if config.measure.alone != "never":
        outcome = alone.with_alone(
            outcome,
            kept.group.agents,
            lambda only, number: run_fresh(f"alone_{number}", only),
            always=config.measure.alone == "always",
        )
    if kept.is_check_due():
        kept.num_checked += 1
        began_s = time.perf_counter()
        again = run_fresh("fresh")
        phases_s = outcome.phases_s | {"fresh": round(time.perf_counter() - began_s, 6)}
        outcome = replace(outcome, fresh=again.cases, phases_s=phases_s)
    return outcome


def run_together(
    point: Point,
    plan: Placement,
    ranks: LocalRanks,
    only: Labels | None = None,
    idle_pids: tuple[int, ...] = (),
) -> Outcome:
    """Runs the ranks of all agents and returns how they ended; the same on all agents.

    Args:
        point: to measure.
        plan: which rank runs where.
        ranks: of this agent.
        only: labels of the one case to time; None for all cases.
        idle_pids: processes of ranks of this agent that stay, if they are others.
    """
    group = ranks.group
    agents, config = group.agents, point.config
    group.clock.look(agents)
    offset = group.clock.offset()
    began_s = time.perf_counter()
    oom_kills = environment.oom_kills()
    ends = ranks.run(Task(config, plan, point.folder, offset, only, idle_pids))
    answer = msgspec.convert(ends.results.get(0), RankReport | None)
    is_sound = answer is None or leaves_ranks_sound(answer.cases, config.measure.mode)
    own = AgentEnd(ends.failure, environment.oom_kills() > oom_kills, is_sound)
    deadline_s = began_s + config.timeout_s + ENDING_S
    reports = agents.exchange(msgspec.to_builtins(own), deadline_s - time.perf_counter())
    group.clock.look(agents)
    error_s = group.clock.error_s(offset)
    errors_s = heard(agents.exchange(error_s, EXCHANGE_TIMEOUT_S), list[float])
    estimator = clock_sync.SHARED if group.clock_is_shared else clock_sync.ESTIMATOR
    all_ends = heard(reports, list[AgentEnd])
    ranks.may_stay = all(end.is_sound and not end.failure for end in all_ends)
    return replace(
        classify(answer, all_ends, began_s),
        private_network=network_of(config, group) is not None,
        start_clock=StartClock(estimator, max(errors_s)),
    )


def leaves_ranks_sound(cases: Sequence[CaseRecord], mode: str) -> bool:
    """Returns whether ranks that measured these cases may measure another point.

    A capture that failed may leave torch's allocator as if it went on (pytorch#180395).
    """
    unsound = {"invalid", "oom", *(("unavailable",) if mode == GRAPH else ())}
    return not any(case.status in unsound for case in cases)
