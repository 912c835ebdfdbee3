"""The ranks of one point that this agent starts and waits for."""

import traceback
from dataclasses import dataclass, replace
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
from launch.ranks.watch import RankEnds
from launch.slowdown import cgroup, mps
from launch.slowdown.mps_control import MpsUnavailable


def network_of(config: RunConfig, group: AgentGroup) -> PrivateNetwork | None:
    """Returns the network that the ranks of a point use.

    None means the host's network, which the libraries of GPUs expect.
    """
    return group.network if config.private_network and config.hardware.device == "cpu" else None


@dataclass(frozen=True)
class LocalRanks:
    """The ranks of one point on this agent.

    Attributes:
        config: of the point.
        group: of the agents.
        plan: which rank runs where.
        folder: of the point; the ranks write their logs there.
        rendezvous: where all ranks of the point meet.
        offset: from this agent's clock to that of agent 0.
        only: labels of the one case that they time; None for all cases.
    """

    config: RunConfig
    group: AgentGroup
    plan: Placement
    folder: Path
    rendezvous: Rendezvous
    offset: Offset
    only: Labels | None = None

    def run(self) -> RankEnds:
        """Runs the ranks until they end, or until another agent's ranks fail.

        An Exception never leaves this function: it becomes the failure of the ends.
        """
        try:
            ends = self.run_or_raise()
        except (Unavailable, MpsUnavailable) as error:
            ends = RankEnds(failure=exception_of(error, str(error)))
        except Exception as error:
            # The fault is the agent's or the machine's, for example if it can start no process.
            # The next point may do better.
            failure = exception_of(error, f"the agent failed: {error}")
            ends = RankEnds(failure=replace(failure, traceback=traceback.format_exc()))
        finally:
            if max(self.plan.slowdown) > 1:
                cgroup.remove_abandoned()
        agents = self.group.agents
        if ends.failure:
            agents.alarm(ends.failure.kind)
            ends.failure = placed(ends.failure, agents.me.host, self.offset)
        return ends

    def run_or_raise(self) -> RankEnds:
        """Starts one process per rank, with its assignment and environment, and waits for all."""
        config, plan, agents = self.config, self.plan, self.group.agents
        on_gpus = config.hardware.device == "cuda"
        by_shares = by_mps(config, plan.slowdown)
        with (
            mps.daemon(by_shares, len(self.group.on_host_of(agents.me))) as shares,
            flight_recorder.recording(on_gpus, self.folder) as recorder,
        ):
            common = shares | self.rendezvous.environment()
            if recorder:
                common |= recorder.environment()
            if by_shares:
                common |= mps.device_environment(self.group.facts[agents.me.index].visible_gpus)
            return start.run_ranks(
                "benchkit.rank.main:run_rank",
                self.assignments(),
                environments=[
                    common | placement.rank_environment(config, place, plan)
                    for place in plan.places
                ],
                folder=self.folder,
                timeout_s=config.timeout_s,
                start_method=config.start_method,
                preload=preload_for([config.suite]),
                first_rank=plan.places[0].rank,
                agents=agents,
                network=network_of(config, self.group),
                recorder=recorder,
            )

    def assignments(self) -> list[Assignment]:
        """Returns what each rank of this agent has to do."""
        return [
            Assignment(
                config=self.config,
                place=place,
                world_size=self.plan.world_size,
                threads=self.plan.threads,
                slowdown=self.plan.slowdown,
                rendezvous=self.rendezvous,
                offset=self.offset,
                folder=self.folder,
                only=self.only,
            )
            for place in self.plan.places
        ]


def exception_of(error: Exception, message: str) -> Failure:
    """Returns the failure of an exception that this agent raised, which no rank is to blame for."""
    return Failure(None, "exception", message, type=type(error).__name__)
