"""Place a point's ranks: each agent's share of them, their threads and devices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchkit.api.keys import SET_IN_RANKS, RunConfig
from benchkit.point.agent_group import AgentFacts, AgentGroup
from benchkit.rank.assignment import GLOO_INTERFACE, LOOPBACK_INTERFACE, Assignment, RankPlace
from benchkit.record.naming import oversubscription
from benchkit.record.record import AgentReport
from launch.agents.messages import AgentInfo
from launch.ranks.private_network import PrivateNetwork
from launch.slowdown import mps

NCCL_MAY_SHARE = "NCCL_MULTI_RANK_GPU_ENABLE"
"""The variable that lets ranks share a GPU over NCCL, since NCCL 2.30."""


def gpus_of_host(group: AgentGroup, member: AgentInfo) -> set[str]:
    """Return the union of the GPUs visible to the agents on a member's host."""
    peers = group.members_on_host(member)
    return set().union(*(group.facts[peer.index].visible_gpus for peer in peers))


def missing_gpus(config: RunConfig, group: AgentGroup, ranks_per_agent: int) -> str | None:
    if config.hardware.device != "cuda":
        return None
    for member in group.agents.members:
        ranks = ranks_per_agent * len(group.members_on_host(member))
        needed = math.ceil(ranks / config.hardware.ranks_per_device)
        visible = len(gpus_of_host(group, member))
        if needed > visible:
            why = lack_of_gpus(group.facts[member.index])
            plural = "" if needed == 1 else "s"
            return f"needs {needed} GPU{plural} on {member.host}, {visible} visible{why}"
    return None


def lack_of_gpus(facts: AgentFacts) -> str:
    """Return why an agent sees no GPU, or too few, and the remedy; "" if unknown."""
    report = facts.report
    if not (report.cuda or report.hip):
        return f": torch {report.torch} lacks CUDA, install a CUDA build"
    reasons = [facts.lack_of_gpus] if facts.lack_of_gpus else []
    variables = [name for name in report.variables if name.endswith("_VISIBLE_DEVICES")]
    reasons += [f"{name}={report.variables[name]} chooses" for name in variables]
    return f": {'; '.join(reasons)}" if reasons else ""


@dataclass(frozen=True)
class Placement:
    """The ranks of one point.

    Attributes:
        world_size: number of ranks on all agents.
        cores_per_rank: cores per rank on the host with the fewest.
        slowdown: target slowdown factors: [rank].
        places: places of this agent's ranks; empty if there is a problem.
        problem: why the ranks cannot run; None if they can.
        oversubscription: which ranks have more threads than cores; None for none.
        warnings: warnings of the record about cores.
    """

    world_size: int
    threads: int
    cores_per_rank: float
    slowdown: tuple[float, ...]
    places: list[RankPlace]
    agents: list[AgentReport]
    problem: str | None = None
    oversubscription: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostCores:
    """Numbers of cores for the ranks on one host.

    Attributes:
        cores: usable cores of their agents together.
        cpuset: cores of their control groups, without quotas and bindings.
        bound_to: smallest number of cores in an agent's affinity mask.
    """

    host: str
    ranks: int
    cores: int
    cpuset: int
    bound_to: int

    def __str__(self) -> str:
        return f"{self.cores} of {self.cpuset} cores of {self.host}"


def threads_of(config: RunConfig, cores: float) -> int:
    """Return the number of threads of a rank with so many cores."""
    configured = config.threads_per_rank
    return max(1, int(cores)) if configured == "auto" else int(configured)


def place_ranks(config: RunConfig, group: AgentGroup) -> Placement:
    """Give each agent its share of the ranks, in order; all agents compute the same."""
    num_agents = len(group.agents.members)
    world_size = resolve_world_size(config, group)
    ranks_per_agent, remainder = divmod(world_size, num_agents)
    slowdown = slowdown_factors(config, world_size)
    problem: str | None
    if len(slowdown) != world_size:
        problem = (
            f"hardware.slowdown={list(slowdown)} names {len(slowdown)} ranks, "
            f"and there are {world_size}"
        )
    elif mismatch := backend_mismatch(config):
        problem = mismatch
    elif remainder:
        problem = uneven_message(world_size, num_agents)
    else:
        problem = interface_missing(config, group) or missing_gpus(config, group, ranks_per_agent)
    places = [] if problem else place_local_ranks(config, group, ranks_per_agent)
    agents = agent_reports(group, ranks_per_agent)
    hosts = cores_of_hosts(group, ranks_per_agent)
    narrowest = min(hosts, key=lambda host: host.cores / host.ranks)
    cores = narrowest.cores / narrowest.ranks
    threads = threads_of(config, cores)
    oversubscribed = None
    if threads > cores and not problem:
        oversubscribed = oversubscription([(narrowest.ranks, str(narrowest), threads)])
    return Placement(
        world_size,
        threads,
        cores,
        slowdown,
        places,
        agents,
        problem,
        oversubscribed,
        binding_warnings(hosts),
    )


def oversubscribed_points(configs: Sequence[RunConfig], group: AgentGroup) -> str | None:
    """Return a line on oversubscribed points; None without any."""
    plans = [place_ranks(config, group) for config in configs]
    oversubscribed = [plan for plan in plans if plan.oversubscription]
    if not oversubscribed:
        return None
    worst = max(oversubscribed, key=lambda plan: plan.threads / plan.cores_per_rank)
    return f"{len(oversubscribed)} of {len(plans)} points {worst.oversubscription}"


def agent_reports(group: AgentGroup, ranks_per_agent: int) -> list[AgentReport]:
    return [
        replace(
            group.facts[member.index].report,
            ranks=list(range(position * ranks_per_agent, (position + 1) * ranks_per_agent)),
        )
        for position, member in enumerate(group.agents.members)
    ]


def backend_mismatch(config: RunConfig) -> str | None:
    """Return why the backend does not fit the devices.

    Only the ranks check whether torch is built with the backend.
    """
    backend = config.backend
    hardware = config.hardware
    if hardware.device not in backend.devices:
        supported = "/".join(backend.devices)
        return f"{backend.name} communicates {supported} tensors, not {hardware.device}"
    may_share = backend.name != "nccl" or backend.env.get(NCCL_MAY_SHARE) == "1"
    if hardware.ranks_per_device > 1 and not may_share:
        return "nccl refuses ranks that share a GPU; gloo does not"
    return None


def network_of(config: RunConfig, group: AgentGroup) -> PrivateNetwork | None:
    """Return the network of a point's ranks; None for the host's, as GPU libraries expect."""
    return group.network if config.private_network and config.hardware.device == "cpu" else None


def interface_missing(config: RunConfig, group: AgentGroup) -> str | None:
    """Return that a private network, which has only loopback, lacks gloo's interface; or None."""
    interface = config.backend.env.get(GLOO_INTERFACE, LOOPBACK_INTERFACE.name)
    if interface == LOOPBACK_INTERFACE.name or not network_of(config, group):
        return None
    network = "the ranks' private network has loopback alone"
    return (
        f"backend.env.{GLOO_INTERFACE}={interface}: allowed with private_network=false: {network}"
    )


def slowdown_factors(config: RunConfig, world_size: int) -> tuple[float, ...]:
    """Return the target slowdown factors: [rank]; a single number is the last rank's."""
    factors = config.hardware.slowdown
    if isinstance(factors, list):
        return tuple(factors)
    return (1.0,) * (world_size - 1) + (float(factors),)


def uneven_message(world_size: int, num_agents: int) -> str:
    return f"{world_size} ranks do not divide over {num_agents} agents"


def place_local_ranks(
    config: RunConfig, group: AgentGroup, ranks_per_agent: int
) -> list[RankPlace]:
    """Place this agent's ranks; agents that see the same GPUs take different ones."""
    me = group.agents.me
    peers = group.members_on_host(me)
    gpus = group.facts[me.index].visible_gpus
    gpus_are_shared = all(group.facts[peer.index].visible_gpus == gpus for peer in peers)
    first_rank = group.agents.members.index(me) * ranks_per_agent
    first_local_rank = peers.index(me) * ranks_per_agent
    first_slot = first_local_rank if gpus_are_shared else 0
    return [
        RankPlace(
            rank=first_rank + i,
            local_rank=first_local_rank + i,
            local_world_size=ranks_per_agent * len(peers),
            device_index=(first_slot + i) // config.hardware.ranks_per_device,
        )
        for i in range(ranks_per_agent)
    ]


def resolve_world_size(config: RunConfig, group: AgentGroup) -> int:
    """Return the number of ranks.

    `auto` on GPUs is one rank per place on the visible GPUs; with MPS shares, on one GPU of each
    agent. On CPUs it is one rank per agent, and two ranks with a single agent.
    """
    if config.world_size != "auto":
        return int(config.world_size)
    num_agents = len(group.agents.members)
    if config.hardware.device != "cuda":
        return max(2, num_agents)
    ranks_per_agent = []
    for member in group.agents.members:
        gpus = len(gpus_of_host(group, member))
        if config.hardware.slow_by == "mps":
            gpus = min(1, gpus)  # ranks of one GPU are compared with each other
        slots = gpus * config.hardware.ranks_per_device
        ranks_per_agent.append(slots // len(group.members_on_host(member)))
    return int(max(1, min(ranks_per_agent)) * num_agents)


def cores_of_hosts(group: AgentGroup, ranks_per_agent: int) -> list[HostCores]:
    cores_by_host = {}
    for member in group.agents.members:
        if member.network in cores_by_host:
            continue
        peers = group.members_on_host(member)
        facts = [group.facts[peer.index] for peer in peers]
        usable = [peer_facts.report.available_cores or 1 for peer_facts in facts]
        all_cores: set[int] = set().union(*(peer.cores for peer in peers))
        cpuset: set[int] = set().union(*(peer_facts.limits.cpuset for peer_facts in facts))
        # The cores of agents differ if a launcher bound each agent to its own.
        differ = any(set(peer.cores) != all_cores for peer in peers)
        cores = min(sum(usable), len(all_cores)) if differ else min(usable)
        cores_by_host[member.network] = HostCores(
            host=member.host,
            ranks=max(1, ranks_per_agent * len(peers)),
            cores=cores,
            cpuset=max(len(cpuset), len(all_cores)),
            bound_to=min(len(peer.cores) for peer in peers),
        )
    return list(cores_by_host.values())


def binding_warnings(hosts: Sequence[HostCores]) -> tuple[str, ...]:
    hosts_by_cores: dict[str, list[str]] = {}
    for host in hosts:
        if host.bound_to < host.cpuset:
            cores = f"{host.bound_to} of {host.cpuset} cores"
            hosts_by_cores.setdefault(cores, []).append(host.host)
    cause = "(by taskset, mpirun, srun or the like)"
    return tuple(
        f"agents on {', '.join(host_names)} are bound to {cores} {cause}"
        for cores, host_names in hosts_by_cores.items()
    )


def rank_environment(assignment: Assignment) -> dict[str, str]:
    config, place = assignment.config, assignment.place
    gpu_variables = {}
    if config.hardware.device == "cuda":
        # NCCL does not abort the ranks whose peer has failed: the agent ends them.
        gpu_variables["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    if assignment.uses_mps:
        share = config.hardware.share(assignment.slowdown[place.rank])
        gpu_variables |= mps.share_environment(share)
    values = (
        assignment.threads, place.rank, place.local_rank, assignment.world_size,
        place.local_world_size,
    )  # fmt: skip
    return {
        **gpu_variables,
        **config.backend.env,
        **dict(zip(SET_IN_RANKS, map(str, values), strict=True)),
    }
