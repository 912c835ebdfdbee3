"""Forms the group of agents before the first point: their facts, and where their ranks meet."""

import logging
from typing import Any

import msgspec

from benchkit import environment
from benchkit.point.agents import AgentFacts, AgentGroup, heard
from benchkit.rank.rendezvous import MemoryFile, memory_file
from benchkit.visible_gpus import visible_gpus
from launch.agents import interface
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents
from launch.agents.member import Lost, SweepEnds
from launch.ranks import private_network
from launch.ranks.private_network import PrivateNetwork
from launch.topology import limits

NO_NETWORK = PrivateNetwork(0, (), ())
log = logging.getLogger("benchkit")


def form_group(agents: Agents) -> AgentGroup:
    """Gathers facts and agrees where the ranks of all points meet; all agents call this together.

    Agent 0 makes what ranks on one host need to meet; the others tell whether it reaches them.
    """
    facts = gather_facts(agents)
    with memory_file() as trial:
        made = None
        if agents.first:
            made = msgspec.to_builtins((trial, private_network.make() or NO_NETWORK))
        told = exchanged(agents, made)[0]
        file, network = heard(told, tuple[MemoryFile, PrivateNetwork])
        one_host = len({member.network for member in agents.members}) == 1
        own = [one_host and file.can_be_opened(), network.can_be_entered()]
        reached = heard(exchanged(agents, own), list[tuple[bool, bool]])
    if all(opened for opened, _ in reached):
        enterable = bool(network.paths) and all(entered for _, entered in reached)
        return AgentGroup(agents, facts, meets_in_file=True, network=network if enterable else None)
    return AgentGroup(agents, facts, interface=gloo_interface(agents))


def gloo_interface(agents: Agents) -> str:
    """Returns the interface of this host that gloo is told to use; all agents call this together.

    It is "" where gloo finds it by the host's name. Agents reach agent 0 on their own host by
    loopback, so one with a connection to another host knows it for all of its host.
    """
    own = "" if interface.name_leads_out() else interface.outer_interface(agents.connections)
    names = zip(agents.members, heard(exchanged(agents, own), list[str]), strict=True)
    here = [name for member, name in names if member.network == agents.me.network]
    return next(filter(None, here), "")


def gather_facts(agents: Agents) -> dict[int, AgentFacts]:
    """Returns what each agent reports about itself, by its index; all agents call this together."""
    gpus = visible_gpus()
    own = AgentFacts(environment.of_agent(), gpus.names, gpus.lack, limits())
    reports = heard(exchanged(agents, msgspec.to_builtins(own)), list[AgentFacts])
    return {member.index: report for member, report in zip(agents.members, reports, strict=True)}


def exchanged(agents: Agents, value: Any) -> list[Any]:
    """Returns the value of every agent before the first point, without agents lost meanwhile."""
    while True:
        try:
            return agents.exchange(value, EXCHANGE_TIMEOUT_S)
        except Lost as lost:
            if lost.host_is_silent:
                raise SweepEnds(str(lost)) from None
            log.warning("%s; the others go on", lost)
