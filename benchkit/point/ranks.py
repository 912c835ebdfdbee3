"""The ranks of a point: in turns, alone, fresh, or kept from an earlier point.

Cases that take turns share caches, allocators, clocks and power, so turns may change their times.
"""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from benchkit import environment
from benchkit.api.keys import COLD, GRAPH, REUSE, RunConfig
from benchkit.api.registry import preload_for
from benchkit.errors import Unavailable
from benchkit.point import placement
from benchkit.point.agents import AgentGroup, heard
from benchkit.point.placement import Placement
from benchkit.point.point import AgentEnd, Point, classify, placed
from benchkit.rank.assignment import Assignment, RankReport, Rendezvous, by_mps
from benchkit.record.record import CaseRecord, Labels, Outcome, StartClock
from launch.agents import group as clock_sync
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents, Offset
from launch.ranks import flight_recorder, start
from launch.ranks.private_network import PrivateNetwork
from launch.ranks.start import Ranks
from launch.ranks.watch import Failure, RankEnds
from launch.slowdown import cgroup, mps
from launch.slowdown.mps import MpsUnavailable


def network_of(config: RunConfig, group: AgentGroup) -> PrivateNetwork | None:
    """Return the network that the ranks of a point use.

    None means the host's network, which the libraries of GPUs expect.
    """
    return group.network if config.private_network and config.hardware.device == "cpu" else None


@dataclass(frozen=True)
class Task:
    """What the ranks of an agent run: a point, or one case of it.

    Attributes:
        config: of the point.
        plan: which rank runs where.
        folder: where the ranks write their logs.
        offset: from this agent's clock to that of agent 0.
        only: labels of the one case that they time; None for all cases.
        idle_pids: processes of other ranks of this agent, which are idle.
    """

    config: RunConfig
    plan: Placement
    folder: Path
    offset: Offset
    only: Labels | None = None
    idle_pids: tuple[int, ...] = ()


@dataclass
class LocalRanks:
    """Ranks of this agent, which run one task or several one after another.

    Attributes:
        group: of the agents.
        rendezvous: where all ranks of the point meet.
        num_tasks: number of tasks so far.
        may_stay: whether the ranks of all agents can take another task.
    """

    group: AgentGroup
    rendezvous: Rendezvous
    num_tasks: int = 0
    may_stay: bool = True
    _held: ExitStack = field(default_factory=ExitStack)
    _ranks: Ranks | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """The process numbers of the ranks."""
        return tuple(rank.process.pid for rank in self._ranks.processes) if self._ranks else ()

    def run(self, task: Task) -> RankEnds:
        """Run a task until all ranks have reported, or until another agent's ranks fail.

        An Exception never leaves this function: it becomes the failure of the ends.
        """
        self.num_tasks += 1
        try:
            ends = self.run_or_raise(task)
        except (Unavailable, MpsUnavailable) as error:
            ends = RankEnds(failure=exception_of(error, str(error)))
        except Exception as error:
            # The fault is the agent's or the machine's, for example if it can start no process.
            # The next point may do better.
            failure = exception_of(error, f"the agent failed: {error}")
            ends = RankEnds(failure=replace(failure, traceback=traceback.format_exc()))
        agents = self.group.agents
        if ends.failure:
            agents.alarm(ends.failure.kind)
            ends.failure = placed(ends.failure, agents.me.host, task.offset)
        return ends

    def run_or_raise(self, task: Task) -> RankEnds:
        """Start one process per rank unless they run already, hand out the task and wait."""
        if self._ranks is None:
            self._ranks = self.start(task.config, task.plan)
        return self._ranks.run(
            "benchkit.rank.main:run_rank",
            self.assignments(task),
            folder=task.folder,
            timeout_s=task.config.timeout_s,
            agents=self.group.agents,
        )

    def start(self, config: RunConfig, plan: Placement) -> Ranks:
        """Start one process per rank, with its environment."""
        agents = self.group.agents
        by_shares = by_mps(config, plan.slowdown)
        if max(plan.slowdown) > 1:
            self._held.callback(cgroup.remove_abandoned)
        needed = flight_recorder.recording(config.hardware.device == "cuda")
        recorder = self._held.enter_context(needed)
        gpus = self.group.facts[agents.me.index].visible_gpus
        daemon = mps.daemon(by_shares, gpus, len(self.group.on_host_of(agents.me)))
        common = self._held.enter_context(daemon) | self.rendezvous.environment()
        if recorder:
            common |= recorder.environment()
        environments = [
            common | placement.rank_environment(config, place, plan) for place in plan.places
        ]
        ranks = start.started(
            environments,
            start_method=config.start_method,
            preload=preload_for([config.suite]),
            first_rank=plan.places[0].rank,
            network=network_of(config, self.group),
            recorder=recorder,
        )
        return self._held.enter_context(ranks)

    def end(self) -> None:
        """End the ranks, at once unless they are idle."""
        self._ranks = None
        self._held.close()

    def assignments(self, task: Task) -> list[Assignment]:
        """Return what each rank of this agent has to do."""
        return [
            Assignment(
                config=task.config,
                place=place,
                world_size=task.plan.world_size,
                threads=task.plan.threads,
                slowdown=task.plan.slowdown,
                rendezvous=self.rendezvous,
                offset=task.offset,
                folder=task.folder,
                only=task.only,
                idle_pids=task.idle_pids,
                hosts=tuple(agent.host for agent in task.plan.agents for _ in agent.ranks),
                limits=self.group.facts[self.group.agents.me.index].limits,
            )
            for place in task.plan.places
        ]


@contextmanager
def fresh_ranks(group: AgentGroup) -> Iterator[LocalRanks]:
    """Provide ranks that have not run yet while the context lasts; all agents call it together."""
    with group.rendezvous() as rendezvous:
        ranks = LocalRanks(group, rendezvous)
        try:
            yield ranks
        finally:
            ranks.end()


def exception_of(error: Exception, message: str) -> Failure:
    """Return the failure of an exception that this agent raised, which no rank is to blame for."""
    return Failure(None, "exception", message, type=type(error).__name__)


FRESH_EVERY = 10
"""Of the points whose ranks have measured another one, the first and then one in so many is
measured in fresh ranks, too."""


@dataclass
class KeptRanks:
    """The ranks that stay for the next points, if there are any.

    All agents go through the points in step and decide alike.

    Attributes:
        group: of the agents.
        num_reused: number of points so far whose ranks had measured another one.
        num_checked: number of those that fresh ranks have measured, too.
    """

    group: AgentGroup
    num_reused: int = 0
    num_checked: int = 0
    _held: ExitStack = field(default_factory=ExitStack)
    _ranks: LocalRanks | None = None
    _world: Any = None

    def __enter__(self) -> "KeptRanks":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @contextmanager
    def for_point(self, config: RunConfig, plan: Placement) -> Iterator[LocalRanks]:
        """Provide the ranks of a point while the context lasts; all agents call it together.

        Idle ranks end before a point of another world begins, since they hold memory.
        """
        world = world_of(config, plan)
        if world != self._world:
            self.end()
        if not is_reused(config):
            with fresh_ranks(self.group) as ranks:
                yield ranks
            return
        if self._ranks is None:
            self._ranks = self._held.enter_context(fresh_ranks(self.group))
            self._world = world
        try:
            yield self._ranks
        except BaseException:
            self.end()
            raise
        if not self._ranks.may_stay:
            self.end()
        elif self._ranks.num_tasks > 1:
            self.num_reused += 1

    @property
    def idle_pids(self) -> tuple[int, ...]:
        """The process numbers of the ranks of this agent that stay."""
        return self._ranks.pids if self._ranks else ()

    def is_check_due(self) -> bool:
        """Return whether the point just measured is to be measured in fresh ranks, too."""
        return self.num_reused > FRESH_EVERY * self.num_checked

    def end(self) -> None:
        """End the ranks that stay."""
        self._ranks = self._world = None
        self._held.close()


def is_reused(config: RunConfig) -> bool:
    """Return whether the ranks of a point may stay for the next one.

    By default they do on GPUs, where a CUDA context and the start of NCCL take seconds. A repeated
    run is independent of the others only in fresh ranks, a profiler sees one process per point, and
    only a fresh rank has first calls.
    """
    if config.measure.mode == COLD:
        return False
    if config.ranks == "auto":
        on_gpus = config.hardware.device == "cuda"
        return on_gpus and config.repeat == 1 and config.profile is False
    return config.ranks == REUSE


def world_of(config: RunConfig, plan: Placement) -> tuple[Any, ...]:
    """Return what must be equal for two points to run in the same ranks."""
    return (
        config.suite,
        config.backend,
        config.hardware,
        config.start_method,
        config.private_network,
        config.timeout_s,  # the groups have it
        plan.threads,
        plan.slowdown,
        plan.places,
    )


def with_alone(
    outcome: Outcome, agents: Agents, run: Callable[[Labels, int], Outcome], *, always: bool
) -> Outcome:
    """Return an outcome with what its baselines and best cases take alone; on all agents in step.

    A case that fails alone is a warning.

    Args:
        outcome: of all cases, which agent 0 alone knows.
        run: runs fresh ranks for the case with these labels, which is the n-th so far.
        always: whether the first and the best case of a job without baselines are timed, too.
    """
    began_s = time.perf_counter()
    found, warnings = [], []
    are_compared = any(case.baseline is not None for case in outcome.cases)
    kept = chosen(outcome.cases) if are_compared or always else []
    own = [dict(case.labels) for case in kept]
    wanted = heard(agents.exchange(own, EXCHANGE_TIMEOUT_S)[0], list[Labels])
    for number, labels in enumerate(wanted):
        ended = run(labels, number)
        found += [case for case in ended.cases if case.status == "ok"]
        if ended.status != "ok":
            reason = ended.error.message.splitlines()[0] if ended.error else ""
            warnings.append(f"case {labels} alone: {ended.status}: {reason}")
    return replace(
        outcome,
        alone=found,
        warnings=[*outcome.warnings, *warnings],
        phases_s=outcome.phases_s | ({"alone": time.perf_counter() - began_s} if wanted else {}),
    )


def chosen(cases: Sequence[CaseRecord]) -> list[CaseRecord]:
    """Return the baselines and, of each baseline's group, the fastest case, in order.

    In a job without baselines the cases that do equal work, such as those of one size, are a
    group, whose first case stands for the baseline. A case without a rival has taken turns all the
    same, unless it is the only one of its job.
    """
    timed = [case for case in cases if case.samples_s]
    if len(timed) < 2:
        return []
    named = {case.baseline for case in cases if case.baseline is not None}
    whole = [case for case in timed if case.status == "ok" and not case.is_component]
    groups: dict[object, list[CaseRecord]] = {}
    for case in whole:
        position = cases.index(case)
        work = (case.payload_bytes, case.useful_flops)
        group = position if position in named else case.baseline
        groups.setdefault(group if named else work, []).append(case)
    kept = [cases[position] for position in sorted(named)]
    for rivals in groups.values():
        if not named:
            kept.append(rivals[0])
        kept.append(min(rivals, key=lambda case: case.typical_s))
    return [case for case in cases if case in kept and case.status == "ok"]


ENDING_S = 15.0
"""Time after a point's timeout in which an agent must end its ranks and report, or it is lost."""


def measure_point(point: Point, plan: Placement, kept: KeptRanks) -> Outcome:
    """Measure a point in ranks that stay or in fresh ones; all agents call this together."""
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
        outcome = with_alone(
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
    """Run the ranks of all agents and return how they ended; the same on all agents.

    Args:
        plan: which rank runs where.
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
    is_sound = answer is None or leaves_ranks_sound(answer.measured.cases, config.measure.mode)
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
    """Return whether ranks that measured these cases may measure another point.

    A capture that failed may leave torch's allocator as if it went on (pytorch#180395).
    """
    unsound = {"invalid", "oom", *(("unavailable",) if mode == GRAPH else ())}
    return not any(case.status in unsound for case in cases)
