"""Ranks of this agent: fresh ones for a point, or reused ranks."""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchkit.api.keys import COLD, REUSE, RunConfig
from benchkit.api.registry import preload_for
from benchkit.errors import Unavailable
from benchkit.point import placement
from benchkit.point.agent_group import AgentGroup
from benchkit.point.outcome import add_host
from benchkit.point.placement import Placement
from benchkit.rank.assignment import Assignment, Rendezvous
from launch.ranks import flight_recorder, fork_server, pool
from launch.ranks.pool import RankPool
from launch.ranks.watch import ProcessFailure, RankResults
from launch.slowdown import cgroup, mps
from launch.slowdown.mps import MpsUnavailable


def preload_fork_server(configs: Iterable[RunConfig]) -> None:
    """Start the fork server if it will fork ranks; it preloads their modules."""
    suites = [config.suite for config in configs if config.start_method == "forkserver"]
    if suites:
        fork_server.start_fork_server(preload_for(suites))


@dataclass
class LocalRanks:
    """Ranks of this agent, for one point or several one after another.

    Attributes:
        num_points: number of points run so far.
        are_reusable: whether the ranks of all agents can measure another point.
    """

    group: AgentGroup
    rendezvous: Rendezvous
    num_points: int = 0
    are_reusable: bool = True
    _exit_stack: ExitStack = field(default_factory=ExitStack)
    _ranks: RankPool | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(rank.process.pid for rank in self._ranks.processes) if self._ranks else ()

    def run(self, assignments: Sequence[Assignment]) -> RankResults:
        """Run each rank's assignment until all have reported, or a rank or another agent fails.

        An Exception is not raised: it becomes the failure of the results.
        """
        self.num_points += 1
        agents = self.group.agents
        try:
            results = self.run_or_raise(assignments)
        except (Unavailable, MpsUnavailable) as error:
            results = RankResults(failure=agent_failure(error, str(error)))
        except Exception as error:
            # The agent or its machine has failed, for example to start a process. The next point
            # may succeed.
            failure = agent_failure(error, f"the agent failed: {error}")
            results = RankResults(failure=replace(failure, traceback=traceback.format_exc()))
        if results.failure:
            agents.alarm(results.failure.kind)
            results.failure = add_host(results.failure, agents.me.host, assignments[0].offset)
        return results

    def run_or_raise(self, assignments: Sequence[Assignment]) -> RankResults:
        """Start the ranks unless they run already, send their assignments and wait."""
        if self._ranks is None:
            self._ranks = self.start(assignments)
        return self._ranks.run(
            "benchkit.rank.main:run_rank",
            assignments,
            folder=assignments[0].folder,
            timeout_s=assignments[0].config.timeout_s,
            agents=self.group.agents,
        )

    def start(self, assignments: Sequence[Assignment]) -> RankPool:
        agents, first = self.group.agents, assignments[0]
        config, slowdown = first.config, first.slowdown
        if max(slowdown) > 1:
            self._exit_stack.callback(cgroup.remove_stale_cgroups)
        recorder_context = flight_recorder.open_flight_recorder(config.hardware.device == "cuda")
        recorder = self._exit_stack.enter_context(recorder_context)
        gpus = self.group.facts[agents.me.index].visible_gpus
        agents_here = len(self.group.members_on_host(agents.me))
        daemon_context = mps.provide_daemon(first.uses_mps, gpus, agents_here)
        network = placement.network_of(config, self.group)
        variables = self._exit_stack.enter_context(daemon_context) | self.rendezvous.environment(
            network is not None
        )
        if recorder:
            variables |= recorder.environment()
        ranks = pool.start_ranks(
            [variables | placement.rank_environment(assignment) for assignment in assignments],
            start_method=config.start_method,
            preload=preload_for([config.suite]),
            first_rank=first.place.rank,
            network=network,
            recorder=recorder,
        )
        return self._exit_stack.enter_context(ranks)

    def end(self) -> None:
        """End the ranks; those that are not idle are killed."""
        self._ranks = None
        self._exit_stack.close()


@contextmanager
def fresh_ranks(group: AgentGroup) -> Iterator[LocalRanks]:
    """Provide fresh ranks in this context; all agents call this together."""
    with group.rendezvous() as rendezvous:
        ranks = LocalRanks(group, rendezvous)
        try:
            yield ranks
        finally:
            ranks.end()


def agent_failure(error: Exception, message: str) -> ProcessFailure:
    """Return the failure of this agent by an exception, without a rank to blame."""
    return ProcessFailure(None, "exception", message, type=type(error).__name__)


FRESH_EVERY = 11
"""One in so many points of reused ranks is repeated in fresh ranks, including the first. Isolated
cases are repeated as rarely. It is prime, so that the checks cover all values of a key that varies
from point to point."""


@dataclass
class ReusableRanks:
    """The ranks that are reused for the next points, if any.

    All agents go through the points in step and decide alike.

    Attributes:
        num_reused: points so far whose ranks had measured another point.
        num_checked: points among them that were repeated in fresh ranks.
    """

    group: AgentGroup
    num_reused: int = 0
    num_checked: int = 0
    _exit_stack: ExitStack = field(default_factory=ExitStack)
    _ranks: LocalRanks | None = None
    _reuse_key: Any = None

    def __enter__(self) -> "ReusableRanks":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @contextmanager
    def for_point(self, config: RunConfig, plan: Placement) -> Iterator[LocalRanks]:
        """Provide the ranks of a point in this context; all agents call this together.

        Idle ranks end before a point with another reuse key begins, since they hold memory.
        """
        key = reuse_key(config, plan)
        if key != self._reuse_key:
            self.end()
        if not is_reusable(config):
            with fresh_ranks(self.group) as ranks:
                yield ranks
            return
        if self._ranks is None:
            self._ranks = self._exit_stack.enter_context(fresh_ranks(self.group))
            self._reuse_key = key
        try:
            yield self._ranks
        except BaseException:
            self.end()
            raise
        if not self._ranks.are_reusable:
            self.end()
        elif self._ranks.num_points > 1:
            self.num_reused += 1

    @property
    def idle_pids(self) -> tuple[int, ...]:
        return self._ranks.pids if self._ranks else ()

    def is_fresh_run_due(self) -> bool:
        """Return whether the point just measured is to be repeated in fresh ranks."""
        return self.num_reused > FRESH_EVERY * self.num_checked

    def is_isolated_run_due(self) -> bool:
        """Return whether cases of the point just measured are to be timed in isolation, if allowed.

        That takes fresh ranks, whose start on GPUs takes longer than many a point.
        """
        is_first = self._ranks is None or self._ranks.num_points == 1
        return is_first or self.num_reused % FRESH_EVERY == 0

    def end(self) -> None:
        self._ranks = self._reuse_key = None
        self._exit_stack.close()


def is_reusable(config: RunConfig) -> bool:
    """Return whether the ranks of a point may be reused for the next one.

    By default they are on GPUs, where a CUDA context and the start of NCCL take seconds.
    Repetitions are independent only in fresh ranks, a profiler needs one process per point, and
    only a fresh rank has first calls.
    """
    if config.measure.mode == COLD:
        return False
    if config.ranks == "auto":
        on_gpus = config.hardware.device == "cuda"
        return on_gpus and config.repeat == 1 and config.profile is False
    return config.ranks == REUSE


def reuse_key(config: RunConfig, plan: Placement) -> tuple[Any, ...]:
    """Return the settings that must be equal for two points to run in the same ranks."""
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
