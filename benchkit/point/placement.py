"""Which ranks run where: what each agent takes of a point's ranks, and the threads and devices they get."""

from dataclasses import dataclass
from typing import Any

from benchkit.api.schema import RunConfig
from benchkit.point.agents import AgentGroup
from benchkit.rank.assignment import Place, by_mps
from launch.agents.member import AgentInfo
from launch.slowdown import mps

TO_OTHER_AGENTS = ("visible_gpus", "store_file", "network")
"""Facts that agents tell each other and no record."""


@dataclass(frozen=True)
class Placement:
    """The ranks of one point. `places` are this agent's; `problem` says why there are none."""

    world_size: int
    threads: int
    cores_per_rank: float
    slowdown: tuple[float, ...]
    places: list[Place]
    agents: list[dict[str, Any]]
    problem: str = ""


def place_ranks(config: RunConfig, group: AgentGroup) -> Placement:
    """Gives each agent its share of the ranks, in order of agents. The same on all agents."""
    members = group.agents.members
    world_size = resolve_world_size(config, group)
    share, left_over = divmod(world_size, len(members))
    slowdown = factors(config, world_size)
    problem = uneven(world_size, len(members)) if left_over else missing_gpus(config, group, share)
    problem = unsuited(config) or problem
    if len(slowdown) != world_size:
        problem = f"hardware.slowdown={list(slowdown)} names {len(slowdown)} ranks, and there are {world_size}"
    listed = [
        {name: value for name, value in group.facts[member.index].items() if name not in TO_OTHER_AGENTS}
        | {"ranks": list(range(position * share, (position + 1) * share))}
        for position, member in enumerate(members)
    ]
    places = [] if problem else my_places(config, group, share)
    cores = cores_per_rank(group, share)
    threads = max(1, int(cores)) if config.threads_per_rank == "auto" else int(config.threads_per_rank)
    return Placement(world_size, threads, cores, slowdown, places, listed, problem)


def unsuited(config: RunConfig) -> str:
    """Why the backend cannot serve the devices; "" where it can, if torch is built with it."""
    backend, hardware = config.backend, config.hardware
    if hardware.device not in backend.devices:
        return f"{backend.name} communicates {'/'.join(backend.devices)} tensors, not {hardware.device}"
    if backend.name == "nccl" and hardware.ranks_per_device > 1:
        return "nccl refuses ranks that share a GPU; gloo does not"
    return ""


def factors(config: RunConfig, world_size: int) -> tuple[float, ...]:
    """How many times slower each rank is to be; a single number is the last rank's."""
    asked = config.hardware.slowdown
    return tuple(asked) if isinstance(asked, list) else (1.0,) * (world_size - 1) + (float(asked),)


def uneven(world_size: int, num_agents: int) -> str:
    return f"{world_size} ranks do not divide over {num_agents} agents"


def my_places(config: RunConfig, group: AgentGroup, share: int) -> list[Place]:
    """This agent's ranks. Agents that see the same GPUs of a host take different ones of them."""
    me = group.agents.me
    here = group.on_host_of(me)
    before = here.index(me) * share
    shared = all(group.facts[other.index]["visible_gpus"] == group.facts[me.index]["visible_gpus"] for other in here)
    first, per_device = group.agents.members.index(me) * share, config.hardware.ranks_per_device
    return [
        Place(first + i, before + i, share * len(here), ((before if shared else 0) + i) // per_device)
        for i in range(share)
    ]


def resolve_world_size(config: RunConfig, group: AgentGroup) -> int:
    """`auto`: on GPUs one rank per place on those visible; on CPUs one per agent, and 2 where there is one agent."""
    if config.world_size != "auto":
        return int(config.world_size)
    num_agents = len(group.agents.members)
    if config.hardware.device != "cuda":
        return max(2, num_agents)
    shares = [
        len(gpus_of_host(group, member)) * config.hardware.ranks_per_device // len(group.on_host_of(member))
        for member in group.agents.members
    ]
    return int(max(1, min(shares)) * num_agents)


def gpus_of_host(group: AgentGroup, member: AgentInfo) -> set[str]:
    """All GPUs that the agents on a member's host see together."""
    return {gpu for other in group.on_host_of(member) for gpu in group.facts[other.index]["visible_gpus"]}


def missing_gpus(config: RunConfig, group: AgentGroup, share: int) -> str:
    """Why a point cannot have the GPUs it asks for; "" where it can, or asks for none."""
    if config.hardware.device != "cuda":
        return ""
    for member in group.agents.members:
        ranks = share * len(group.on_host_of(member))
        needed, there = -(-ranks // config.hardware.ranks_per_device), len(gpus_of_host(group, member))
        if needed > there:
            return f"needs {needed} GPUs for {ranks} ranks on {member.host}, {there} visible"
    return ""


def cores_per_rank(group: AgentGroup, share: int) -> float:
    """What each rank has of its host's cores where all share them equally; of the scantiest host."""
    shares = []
    for member in group.agents.members:
        here = group.on_host_of(member)
        usable = [group.facts[other.index]["available_cores"] for other in here]
        together = {core for other in here for core in other.cores}
        bound = any(set(other.cores) != together for other in here)  # a launcher gave each agent cores of its own
        cores = min(sum(usable), len(together)) if bound else min(usable)
        shares.append(cores / max(1, share * len(here)))
    return float(min(shares))


def rank_environment(config: RunConfig, place: Place, layout: Placement) -> dict[str, str]:
    """The environment of one rank: the backend's own variables, threads, and the names that torchrun uses."""
    factor, sharers = layout.slowdown[place.rank], config.hardware.ranks_per_device
    return {
        **(mps.share_environment(factor, sharers) if by_mps(config, layout.slowdown) else {}),
        **config.backend.env,
        "OMP_NUM_THREADS": str(layout.threads),
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local_rank),
        "WORLD_SIZE": str(layout.world_size),
        "LOCAL_WORLD_SIZE": str(place.local_world_size),
    }
