"""The ranks that this agent starts and waits for."""

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchkit.api.registry import preload_for
from benchkit.api.schema import RunConfig
from benchkit.errors import Unavailable
from benchkit.point import placement
from benchkit.point.agents import AgentGroup
from benchkit.point.outcome import placed
from benchkit.point.placement import Placement
from benchkit.rank.assignment import Assignment, by_mps
from benchkit.rank.rendezvous import Rendezvous
from benchkit.record.case import Labels
from launch.agents.clock_sync import Offset
from launch.ranks import flight_recorder, start
from launch.ranks.failure import Failure
from launch.ranks.private_network import PrivateNetwork
from launch.ranks.start import Ranks
from launch.ranks.watch import RankEnds
from launch.slowdown import cgroup, mps
from launch.slowdown.mps_control import MpsUnavailable


def network_of(config: RunConfig, group: AgentGroup) -> PrivateNetwork | None:
    """Returns the network that the ranks of a point use.

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
        """Runs a task until all ranks have reported, or until another agent's ranks fail.

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
        """Starts one process per rank unless they run already, hands out the task and waits."""
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
        """Starts one process per rank, with its environment."""
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
        """Ends the ranks, at once unless they are idle."""
        self._ranks = None
        self._held.close()

    def assignments(self, task: Task) -> list[Assignment]:
        """Returns what each rank of this agent has to do."""
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
    """Provides ranks that have not run yet while the context lasts; all agents call it together."""
    with group.rendezvous() as rendezvous:
        ranks = LocalRanks(group, rendezvous)
        try:
            yield ranks
        finally:
            ranks.end()


def exception_of(error: Exception, message: str) -> Failure:
    """Returns the failure of an exception that this agent raised, which no rank is to blame for."""
    return Failure(None, "exception", message, type=type(error).__name__)
