"""The ranks of one point that this agent starts and waits for."""

import traceback
from pathlib import Path

from benchkit.api.registry import start_fork_server
from benchkit.api.schema import RunConfig
from benchkit.errors import Unavailable
from benchkit.point import placement
from benchkit.point.agents import AgentGroup
from benchkit.point.outcome import placed
from benchkit.point.placement import Placement
from benchkit.rank.assignment import Assignment, by_mps
from benchkit.rank.rendezvous import Rendezvous
from launch.agents.clock_sync import Offset
from launch.ranks import start
from launch.ranks.failure import Failure
from launch.ranks.private_network import PrivateNetwork
from launch.ranks.watch import Outcome
from launch.slowdown import cgroup, mps


def network_of(config: RunConfig, group: AgentGroup) -> PrivateNetwork | None:
    """Returns the network that the ranks of a point use.

    None means the host's network, which the libraries of GPUs expect.
    """
    return group.network if config.private_network and config.hardware.device == "cpu" else None


def fork_ranks(
    config: RunConfig,
    group: AgentGroup,
    plan: Placement,
    folder: Path,
    rendezvous: Rendezvous,
    offset: Offset,
) -> Outcome:
    """Runs this agent's ranks of one point until they end, or until another agent's ranks fail.

    An Exception never leaves this function: it becomes the failure of the outcome.
    """
    try:
        outcome = run_ranks(config, group, plan, folder, rendezvous, offset)
    except (Unavailable, mps.MpsUnavailable) as error:
        outcome = Outcome(failure=Failure(None, "exception", str(error), type=type(error).__name__))
    except Exception as error:
        # The fault is the agent's or the machine's, for example if it can start no process.
        # The next point may do better.
        text = f"the agent failed: {error}"
        name = type(error).__name__
        trace = traceback.format_exc()
        outcome = Outcome(failure=Failure(None, "exception", text, type=name, traceback=trace))
    finally:
        if max(plan.slowdown) > 1:
            cgroup.remove_abandoned()
    if outcome.failure:
        group.agents.alarm(outcome.failure.kind)
        outcome.failure = placed(outcome.failure, group.agents.me.host, offset)
    return outcome


def run_ranks(
    config: RunConfig,
    group: AgentGroup,
    plan: Placement,
    folder: Path,
    rendezvous: Rendezvous,
    offset: Offset,
) -> Outcome:
    """Starts one process per rank of this agent, with its assignment and environment."""
    if config.start_method == "forkserver":
        start_fork_server([config.suite])
    assignments = [
        Assignment(
            config=config,
            place=place,
            world_size=plan.world_size,
            threads=plan.threads,
            slowdown=plan.slowdown,
            rendezvous=rendezvous,
            offset=offset,
            folder=folder,
        )
        for place in plan.places
    ]
    agents_here = len(group.on_host_of(group.agents.me))
    with mps.daemon(by_mps(config, plan.slowdown), agents_here) as shares:
        common = shares | rendezvous.environment()
        return start.run_ranks(
            "benchkit.rank.main:run_rank",
            assignments,
            environments=[
                common | placement.rank_environment(config, place, plan) for place in plan.places
            ],
            folder=folder,
            timeout_s=config.timeout_s,
            start_method=config.start_method,
            first_rank=plan.places[0].rank,
            agents=group.agents,
            network=network_of(config, group),
        )
