"""Which GPUs the agents of a point see, and what is lacking if they are too few."""

import math

from benchkit.api.schema import RunConfig
from benchkit.point.agents import AgentFacts, AgentGroup
from launch.agents.member import AgentInfo


def gpus_of_host(group: AgentGroup, member: AgentInfo) -> set[str]:
    """Returns all GPUs that the agents on a member's host see together."""
    here = group.on_host_of(member)
    return set().union(*(group.facts[other.index].visible_gpus for other in here))


def missing_gpus(config: RunConfig, group: AgentGroup, share: int) -> str:
    """Returns why a point lacks the GPUs that it asks for; "" if it has them or asks for none."""
    if config.hardware.device != "cuda":
        return ""
    for member in group.agents.members:
        ranks = share * len(group.on_host_of(member))
        needed = math.ceil(ranks / config.hardware.ranks_per_device)
        visible = len(gpus_of_host(group, member))
        if needed > visible:
            why = lack_of_gpus(group.facts[member.index])
            plural = "" if needed == 1 else "s"
            return f"needs {needed} GPU{plural} on {member.host}, {visible} visible{why}"
    return ""


def lack_of_gpus(facts: AgentFacts) -> str:
    """Returns why an agent sees no GPU, or too few, with what to do; "" where that is not known."""
    report = facts.report
    if not (report.cuda or report.hip):
        return f": torch {report.torch} lacks CUDA, install a CUDA build"
    reasons = [facts.lack_of_gpus] if facts.lack_of_gpus else []
    masks = [name for name in report.variables if name.endswith("_VISIBLE_DEVICES")]
    reasons += [f"{name}={report.variables[name]} chooses" for name in masks]
    return f": {'; '.join(reasons)}" if reasons else ""
