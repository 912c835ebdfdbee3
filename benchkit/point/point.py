"""Run one point of a sweep, on all agents in step; only agent 0 writes.

    begin_point     place the ranks and make the record, as far as it is known before ranks run
    PointRun.run    store it as `running`, lock the hosts, run the ranks, repeat isolated cases
    PointRun.end    add the end time and the durations of phases, and store the record

`run` replaces status and error, and adds to warnings and slowdown; each other field of the record
is set in one of these places only. outcome.py derives the status from the ranks.
"""

import contextlib
import datetime
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from benchkit import environment
from benchkit.api.keys import RunConfig, as_dict
from benchkit.config.identity import point_id
from benchkit.errors import HostBusy
from benchkit.point import point_folder
from benchkit.point.agent_group import form_group
from benchkit.point.outcome import (
    AgentOutcome,
    RanksOutcome,
    error_report,
    leaves_ranks_sound,
    outcome_of,
)
from benchkit.point.placement import (
    Placement,
    network_of,
    oversubscribed_points,
    place_ranks,
    slowdown_factors,
    threads_of,
)
from benchkit.point.ranks import LocalRanks, ReusableRanks, fresh_ranks
from benchkit.rank.assignment import Assignment, RankReport, take_partial_report
from benchkit.record import files
from benchkit.record.naming import escape_unprintable
from benchkit.record.record import (
    TIMEOUT,
    AgentReport,
    CaseRecord,
    ComparisonRun,
    Labels,
    Record,
    SlowdownReport,
)
from benchkit.secrets import mask_config
from benchkit.selftest import floor
from launch import signals
from launch.agents.group import Agents
from launch.agents.messages import Lost, SweepEnds
from launch.launcher_env import detect_launcher

COMPARISON_VARIABLE = "BENCHKIT_COMPARISON"
"""Environment variable with the ComparisonRun of a run, as JSON.

A variable and not a configuration key: older commits without such a key are compared, too."""
WAIT = "wait_for_host"
"""Phase of waiting for the locks of the hosts; `total` excludes it."""
ENDING_S = 15.0
"""Grace period after timeout_s: an agent that has not reported by then counts as lost."""
CAUSE_S = 2.0
"""Seconds to wait after a signal for the loss of another agent, a possible cause of it."""
RecordCallback = Callable[[Record], None]  # takes the record of a point that has ended
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Attributes:
        overrides: overrides for the record, without secrets.
        num_agents: number of agents, if a launcher starts them.
        resumed_with: changes of software and hosts since the start of the sweep: [then, now] by
            name.
        repetition: number of the run of its configuration in the sweep, from 0.
        interpolations: texts, by key, that the record has in place of values from the environment.
    """

    config: RunConfig
    folder: Path
    overrides: list[str]
    num_agents: int = 1
    resumed_with: dict[str, list[str]] = field(default_factory=dict)
    repetition: int = 0
    interpolations: Mapping[str, str] = field(default_factory=dict)

    def provisional_placement(self) -> Placement:
        """Return the placement as far as it is known before any agent runs."""
        config = self.config
        auto_size = config.world_size == "auto"
        world_size = max(2, self.num_agents) if auto_size else int(config.world_size)
        agents = [AgentReport(host="nowhere")] * self.num_agents
        return Placement(
            world_size,
            threads_of(config, 1.0),
            1.0,
            slowdown_factors(config, world_size),
            [],
            agents,
        )

    def record(self) -> Record | None:
        return files.read_from(self.folder)


def new_record(point: Point, plan: Placement, attempt: int = 1) -> Record:
    config = as_dict(point.config)
    return Record(
        point_id=point_id(config, plan.world_size),
        suite=point.config.suite,
        title=point.config.title(),
        status="running",
        config=mask_config(config, typed=point.interpolations),
        overrides=list(map(escape_unprintable, point.overrides)),
        attempt=attempt,
        repetition=point.repetition,
        resumed_with=point.resumed_with,
        comparison=current_comparison(),
        world_size=plan.world_size,
        threads_per_rank=plan.threads,
        cores_per_rank=plan.cores_per_rank,
        launched_by=detect_launcher().launcher,
        agents=plan.agents,
        slowdown=SlowdownReport(asked=list(plan.slowdown)),
        warnings=[
            *environment.version_differences(plan.agents),
            *plan.warnings,
            *idle_key_warnings(point),
        ],
        started_at=now(),
        environment=environment.read_environment(),
    )


def idle_key_warnings(point: Point) -> list[str]:
    """Return a warning per override without an effect on this point."""
    lines = [text.lstrip("+") for text in point.overrides]
    idle = point.config.idle_keys()
    pairs = [(line, idle.get(line.partition("=")[0])) for line in lines]
    return [f"{line} has no effect here: {why}" for line, why in pairs if why]


def current_comparison() -> ComparisonRun | None:
    text = os.environ.get(COMPARISON_VARIABLE)
    return msgspec.json.decode(text, type=ComparisonRun) if text else None


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def run_points(
    points: Sequence[Point], agents: Agents, on_point_end: RecordCallback
) -> Iterator[str]:
    """Run points one after another and yield the status of each as it ends."""
    if not points:
        return
    with ReusableRanks(form_group(agents)) as rank_pool:
        if agents.first and (
            line := oversubscribed_points([point.config for point in points], rank_pool.group)
        ):
            log.warning(line)
        for point in points:
            yield run_and_report(point, on_point_end, rank_pool)


def run_and_report(point: Point, report: RecordCallback, rank_pool: ReusableRanks) -> str:
    """Run one point and return its status; agent 0 also reports its record."""
    agents = rank_pool.group.agents
    try:
        with point_folder.open_point_folder(point.folder, agents.first) as attempt:
            record = run_point(point, rank_pool, attempt)
    except Exception as error:
        if len(agents.members) > 1:  # the others must not wait for this agent at the next point
            raise SweepEnds(f"{agents.me} failed: {error!r}") from error
        log.error("%s: no record: %r", " ".join(point.overrides), error)
        return "error"
    if agents.first:
        report(record)
    return record.status


def run_point(point: Point, rank_pool: ReusableRanks, attempt: int = 1) -> Record:
    run = begin_point(point, rank_pool, attempt)
    try:
        run.run()
    except KeyboardInterrupt as error:
        run.stop(error)
        raise
    finally:
        with signals.defer_signals():  # a point that has ended must not stay `running`
            run.end()
    if run.sweep_ends:
        raise SweepEnds(run.sweep_ends)
    return run.record


def begin_point(point: Point, rank_pool: ReusableRanks, attempt: int) -> "PointRun":
    began_s = time.perf_counter()
    plan = place_ranks(point.config, rank_pool.group)
    num_losses = len(rank_pool.group.agents.losses)
    return PointRun(point, rank_pool, plan, began_s, num_losses, new_record(point, plan, attempt))


@dataclass
class PointRun:
    """One attempt at a point; its methods are called on all agents in step.

    Attributes:
        began_s: begin of the attempt, by perf_counter.
        num_losses: number of losses of agents before.
        sweep_ends: why the sweep cannot go on after this point; None if it can.
    """

    point: Point
    rank_pool: ReusableRanks
    plan: Placement
    began_s: float
    num_losses: int
    record: Record
    phases_s: dict[str, float] = field(default_factory=dict)
    sweep_ends: str | None = None

    @property
    def agents(self) -> Agents:
        return self.rank_pool.group.agents

    def run(self) -> None:
        """Lock the hosts and measure; an exception that prevents this sets the point's status."""
        try:
            self.store_as_running()
            if self.plan.problem:
                self.set_failure("unavailable", self.plan.problem)
                return
            with contextlib.ExitStack() as exit_stack:
                with self.phase(WAIT):
                    hosts = self.rank_pool.group.lock_hosts(self.point.config.host_wait_s)
                    host_warnings = exit_stack.enter_context(hosts)
                self.measure(host_warnings)
        except HostBusy as busy:
            self.set_failure("error", str(busy))
        except Lost as lost:
            self.fail_by_loss(lost)
            self.sweep_ends = str(lost) if lost.host_is_silent else None

    def store_as_running(self) -> None:
        """Store the record as `running`; raise SweepEnds on all agents if agent 0 cannot."""
        problems = self.agents.all_gather(self.save(), list[str | None])
        if problem := next(filter(None, problems), None):
            raise SweepEnds(problem)

    def measure(self, host_warnings: list[str]) -> None:
        """Run the ranks, repeat isolated cases and the point in fresh ranks; fill the record."""
        config, rank_pool = self.point.config, self.rank_pool
        with rank_pool.for_point(config, self.plan) as ranks:
            outcome = self.run_ranks(ranks, self.point.folder)
        # The last phase lasts until the processes have ended, or wait for their next point.
        self.phases_s |= phase_durations({**outcome.began_s, "": time.perf_counter()})

        # Interleaved cases share caches, allocators, clocks and power. The effect shows in the
        # baselines and the best cases, each isolated in fresh ranks.
        isolated: list[CaseRecord] = []
        isolated_failures = []
        cases = [] if outcome.status == TIMEOUT else outcome.measured.cases
        for number, labels in enumerate(self.choose_isolated_labels(cases)):
            with self.phase("alone"):
                repeat = self.run_fresh(f"alone_{number}", labels)
            isolated += [case for case in repeat.measured.cases if case.status == "ok"]
            if repeat.status != "ok":
                reason = repeat.error.message.splitlines()[0] if repeat.error else ""
                isolated_failures.append(f"case {labels} alone: {repeat.status}: {reason}")

        fresh: list[CaseRecord] = []
        if rank_pool.is_fresh_run_due():
            rank_pool.num_checked += 1
            with self.phase("fresh"):
                fresh = self.run_fresh("fresh").measured.cases

        measured = replace(
            outcome.measured,
            slowdown=outcome.measured.slowdown or self.record.slowdown,
            warnings=[
                *self.record.warnings,
                *host_warnings,
                *outcome.measured.warnings,
                *isolated_failures,
            ],
        )
        self.record = replace(
            self.record,
            status=outcome.status,
            error=outcome.error,
            **vars(measured),
            alone=isolated,
            fresh=fresh,
            start_clock=outcome.start_clock,
            private_network=network_of(config, rank_pool.group) is not None,
        )

    def choose_isolated_labels(self, cases: Sequence[CaseRecord]) -> list[Labels]:
        """Return the labels of the cases to repeat in isolation, by agent 0's choice."""
        when = self.point.config.measure.alone
        if when == "never" or (when == "auto" and not self.rank_pool.is_isolated_run_due()):
            return []
        labels: list[Labels] = [
            dict(case.labels) for case in choose_isolated_cases(cases, always=when == "always")
        ]
        return self.agents.broadcast(labels, list[Labels])

    def run_fresh(self, name: str, only: Labels | None = None) -> RanksOutcome:
        folder = self.point.folder / name
        folder.mkdir(exist_ok=True)
        with fresh_ranks(self.rank_pool.group) as ranks:
            return self.run_ranks(ranks, folder, only, self.rank_pool.idle_pids)

    def run_ranks(
        self,
        ranks: LocalRanks,
        folder: Path,
        only: Labels | None = None,
        idle_pids: tuple[int, ...] = (),
    ) -> RanksOutcome:
        """Run the ranks of all agents and return their outcome; all agents call this together.

        `only` has the labels of the single case to time. `idle_pids` are the processes of this
        agent's idle ranks.
        """
        group, config, plan = self.rank_pool.group, self.point.config, self.plan
        offset = group.clock_offset()
        began_s = time.perf_counter()
        oom_kills = environment.oom_kills()
        assignments = [
            Assignment(
                config=config,
                place=place,
                world_size=plan.world_size,
                threads=plan.threads,
                slowdown=plan.slowdown,
                rendezvous=ranks.rendezvous,
                offset=offset,
                folder=folder,
                only=only,
                idle_pids=idle_pids,
                hosts=tuple(agent.host for agent in plan.agents for _ in agent.ranks),
                limits=group.facts[self.agents.me.index].limits,
            )
            for place in plan.places
        ]
        if self.agents.first:
            take_partial_report(folder)  # of an attempt that was killed
        results = ranks.run(assignments)
        so_far = take_partial_report(folder) if self.agents.first else None
        report = msgspec.convert(results.results.get(0), RankReport | None) or so_far
        is_sound = report is None or leaves_ranks_sound(report.measured.cases, config.measure.mode)
        own_outcome = AgentOutcome(results.failure, environment.oom_kills() > oom_kills, is_sound)
        rest_s = began_s + config.timeout_s + ENDING_S - time.perf_counter()
        outcomes = self.agents.all_gather(own_outcome, list[AgentOutcome], rest_s)
        start_clock = group.start_clock(offset)
        ranks.are_reusable = all(agent.is_sound and not agent.failure for agent in outcomes)
        outcome = outcome_of(report, outcomes)
        phase_starts = {"spawn": began_s, **outcome.began_s} if outcome.began_s else {}
        return replace(outcome, began_s=phase_starts, start_clock=start_clock)

    def stop(self, error: KeyboardInterrupt) -> None:
        """Store the status of a run stopped by a signal, and stop the other agents."""
        signals.ignore_signals()
        request = signals.to_stop_request(error)
        self.set_failure(request.status, str(request))
        self.save()  # at once: SIGKILL may follow
        self.agents.stop(request)
        if losses := self.agents.losses_after(self.num_losses, CAUSE_S):
            self.fail_by_loss(losses[0])

    def end(self) -> None:
        total_s = time.perf_counter() - self.began_s - self.phases_s.get(WAIT, 0.0)
        self.record = replace(
            self.record,
            finished_at=now(),
            phases_s=self.phases_s | {"total": round(total_s, 6)},
            noise_floor=floor.floor_of(self.record),
        )
        self.sweep_ends = self.save() or self.sweep_ends

    def set_failure(self, status: str, message: str, host: str = "") -> None:
        self.record = replace(self.record, status=status, error=error_report(message, host=host))

    def fail_by_loss(self, lost: Lost) -> None:
        self.set_failure("crash", str(lost), lost.members[0].host)

    def save(self) -> str | None:
        """Store the record on agent 0; return why that fails, or None."""
        return (
            point_folder.save_or_explain(self.record, self.point.folder)
            if self.agents.first
            else None
        )

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began_s = time.perf_counter()
        try:
            yield
        finally:
            spent_s = self.phases_s.get(name, 0.0) + time.perf_counter() - began_s
            self.phases_s[name] = round(spent_s, 6)


def phase_durations(began_s: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each phase; the last entry is only the end of the phase before."""
    names = list(began_s)
    times = list(began_s.values())
    return {name: round(times[i + 1] - times[i], 6) for i, name in enumerate(names[:-1])}


def choose_isolated_cases(cases: Sequence[CaseRecord], always: bool = False) -> list[CaseRecord]:
    """Return the cases to repeat in isolation: the baselines, and the best rival of each.

    Without baselines, the cases of one problem form a group and its first case is the reference. A
    case without rivals is repeated, too, because it was interleaved with others; the only case of a
    job is not.
    """
    timed = [case for case in cases if case.samples_s]
    baselines = {case.baseline for case in cases if case.baseline is not None}
    if len(timed) < 2 or not (baselines or always):
        return []
    groups: dict[object, list[CaseRecord]] = {}
    for position, case in enumerate(cases):
        if case.samples_s and case.status == "ok" and not case.is_component:
            problem = (case.payload_bytes, case.useful_flops)
            rival_of = position if position in baselines else case.baseline
            groups.setdefault(rival_of if baselines else problem, []).append(case)
    selected = [cases[position] for position in baselines]
    for rivals in groups.values():
        if not baselines:
            selected.append(rivals[0])
        selected.append(min(rivals, key=lambda case: case.typical_s))
    return [case for case in cases if case in selected and case.status == "ok"]
