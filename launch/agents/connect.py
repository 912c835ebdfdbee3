"""Connect the agents of one start, and check that all run the same."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from launch.agents.address import LOOPBACK, Address, Endpoint, describe_error
from launch.agents.channel import Channel, PeerLost
from launch.agents.group import Agents, single_agent
from launch.agents.handshake import HELLO_S, Stranger, call, callers
from launch.agents.messages import AgentInfo, Hello, JoinError, Welcome, this_member
from launch.agents.rendezvous import ADVICE, AgentRendezvous, choose_rendezvous
from launch.launcher_env import LaunchContext

POLL_S = 0.1


def connect_agents(
    context: LaunchContext,
    traits: Mapping[str, str],
    folder: Path,
    timeout_s: float,
    trusts_network: bool = False,
) -> Agents:
    """Connect the agents of one start.

    Args:
        traits: values that must be equal on all agents, by name.
        folder: folder of the rendezvous file, if the nodes share it.
        timeout_s: time limit until all are connected.
        trusts_network: accept a guessable secret between hosts.

    Raise JoinError on every agent if one is missing or differs in a trait.
    """
    if context.num_processes == 1:
        return single_agent()
    rendezvous = choose_rendezvous(context, folder, trusts_network)
    hello = Hello(this_member(context.index), dict(traits))
    if context.index:
        return connect_to_agent_0(rendezvous, hello, context.num_processes, timeout_s)
    return accept_agents(rendezvous, hello, context.num_processes, timeout_s)


def accept_agents(
    rendezvous: AgentRendezvous, hello: Hello, count: int, timeout_s: float
) -> Agents:
    """Connect agent 0 to `count - 1` others; send all the members, or the reason for the end."""
    deadline = time.monotonic() + timeout_s
    with rendezvous.listen() as (listeners, address):
        with contextlib.closing(callers(listeners, address.token, deadline)) as greetings:
            channels, hellos = collect_greetings(greetings, count)
        members = [hello.member, *(hellos[index].member for index in sorted(hellos))]
        differences = (disagreement(hello, other) for other in hellos.values())
        problem = next(filter(None, differences), None)
        if len(members) < count:
            problem = describe_missing(members, count, address, timeout_s) + rendezvous.advice
        for channel in channels.values():
            channel.send("welcome", Welcome(problem, members))
    if problem:
        raise JoinError(problem)
    return Agents(hello.member, members, dict(sorted(channels.items())), LOOPBACK)


def collect_greetings(
    greetings: Iterable[tuple[Channel, Hello]], count: int
) -> tuple[dict[int, Channel], dict[int, Hello]]:
    """Return the last channel and hello of each agent other than 0, once all have connected."""
    channels: dict[int, Channel] = {}
    hellos: dict[int, Hello] = {}
    for channel, hello in greetings:
        index = hello.member.index
        if not 0 < index < count:
            channel.close()
            continue
        if index in channels:
            channels[index].close()
        channels[index] = channel
        hellos[index] = hello
        if len(channels) == count - 1:
            break
    return channels, hellos


def describe_missing(
    members: list[AgentInfo], count: int, address: Address, timeout_s: float
) -> str:
    joined = ", ".join(map(str, members))
    present = {member.index for member in members}
    missing = ", ".join(str(index) for index in range(count) if index not in present)
    return (
        f"{'no workers: ' if len(members) == 1 else ''}{len(members)} of {count} agents joined "
        f"{Endpoint(address.hosts[0], address.port)} within {timeout_s:g} s ({joined}); "
        f"missing: agent {missing}"
    )


def disagreement(own: Hello, other: Hello) -> str | None:
    for name, value in own.traits.items():
        if (theirs := other.traits.get(name)) != value:
            return f"agents disagree on {name}: {value} on {own.member}, {theirs} on {other.member}"
    return None


def connect_to_agent_0(
    rendezvous: AgentRendezvous, hello: Hello, count: int, timeout_s: float
) -> Agents:
    """Connect an agent other than 0; raise JoinError if agent 0 is missing or refuses."""
    deadline = time.monotonic() + timeout_s
    channel, host = reach_agent_0(rendezvous, hello.member, timeout_s)
    channel.send("hello", hello)
    try:
        _, plain = channel.receive(max(HELLO_S, deadline + HELLO_S - time.monotonic()))
        welcome = msgspec.convert(plain, Welcome)
        if any(member.index >= count for member in welcome.members):
            raise ValueError(f"index: allowed are 0 to {count - 1}")
    except PeerLost as error:
        raise JoinError(f"agent 0 at {host} {error} before all agents had joined") from None
    except ValueError as error:
        answer = f"agent 0 at {host} answers what this benchkit does not know ({error!r})"
        raise JoinError(f"{answer}: is it of the same version?") from None
    if welcome.problem:
        raise JoinError(welcome.problem)
    return Agents(hello.member, welcome.members, {0: channel}, host)


def reach_agent_0(
    rendezvous: AgentRendezvous, me: AgentInfo, timeout_s: float
) -> tuple[Channel, str]:
    """Try each endpoint of agent 0 until it proves itself; return the channel and agent 0's host.

    Raise JoinError after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    failures: dict[str, str] = {}  # by endpoint, of the last attempt with an address
    while True:
        addresses = rendezvous.find()
        if addresses:
            failures.clear()
        for address in addresses:
            for endpoint in address.endpoints():
                try:
                    return call_endpoint(endpoint, address.token), endpoint.host
                except (OSError, UnicodeError) as error:  # UnicodeError: not the name of a host
                    failures[str(endpoint)] = describe_error(error)
                except Stranger:  # The address is from an earlier run.
                    failures[str(endpoint)] = "another program answers"
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    if failures:
        attempts = ", ".join(f"{endpoint} ({why})" for endpoint, why in failures.items())
        raise JoinError(
            f"agent 0 is not reached within {timeout_s:g} s; {me} tried {attempts}: "
            f"start agent 0 first, or {ADVICE}{rendezvous.advice}"
        )
    raise JoinError(
        f"no agent 0 found within {timeout_s:g} s at {rendezvous}: "
        f"is it started, and can it be reached?{rendezvous.advice}"
    )


def call_endpoint(endpoint: Endpoint, token: str) -> Channel:
    stream = endpoint.dial(HELLO_S)
    try:
        return call(stream, token)
    except Stranger:
        stream.close()
        raise
