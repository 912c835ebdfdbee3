"""Joins the agents of one start: agent 0 accepts the others, and all must run the same."""

import contextlib
import logging
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launch.agents.address import LOOPBACK, Address
from launch.agents.channel import Channel, PeerLost
from launch.agents.group import Agents, alone
from launch.agents.handshake import HELLO_S, Stranger, call, callers
from launch.agents.member import AgentInfo, parse_member, this_member
from launch.agents.rendezvous import JoinError, Meeting, until
from launch.topology import LaunchContext

log = logging.getLogger(__name__)


def join(
    started: LaunchContext,
    traits: Mapping[str, str],
    folder: Path,
    timeout_s: float,
    trusts_network: bool = False,
) -> Agents:
    """Joins the agents of one start.

    Args:
        started: the launcher of this process, its index and the number of agents.
        traits: what all agents must have in common, by name.
        folder: where agents meet by a file, if the nodes share it.
        timeout_s: limit of the whole join, in seconds.
        trusts_network: whether a secret that others can guess will do between hosts.

    Raises:
        JoinError: an agent does not come or has another trait; raised on every agent.
    """
    if started.count == 1:
        return alone()
    meeting = Meeting(started, folder, trusts_network)
    deadline = time.monotonic() + timeout_s
    me = this_member(started.index)
    if started.index:
        return join_as_peer(meeting, me, traits, deadline, timeout_s)
    listener, address = meeting.listen()
    try:
        return receive_all(listener, address, me, meeting, traits, deadline, timeout_s)
    finally:
        listener.close()
        meeting.leave()


def receive_all(
    listener: socket.socket,
    address: Address,
    me: AgentInfo,
    meeting: Meeting,
    traits: Mapping[str, str],
    deadline: float,
    timeout_s: float,
) -> Agents:
    """Performs join() on agent 0: accepts the others, compares traits and announces the group."""
    count = meeting.count
    members = {0: me}
    channels: dict[int, Channel] = {}
    differences: list[str] = []
    with contextlib.closing(callers(listener, address.token, deadline)) as proved:
        for channel, hello in proved:
            try:
                member, their_traits = parse_hello(hello, count)
            except ValueError as error:
                log.debug("a stranger that knows the secret: %s", error)
                channel.close()
                continue
            if member.index in channels:
                channels[member.index].close()
            members[member.index] = member
            channels[member.index] = channel
            differences += disagreement(me, traits, member, their_traits)
            if len(members) == count:
                break
    problem = differences[0] if differences else ""
    if len(members) < count:
        problem = describe_missing(members, count, address, timeout_s) + meeting.choices
    listed = [members[index] for index in sorted(members)]
    welcome = {"problem": problem, "members": [asdict(member) for member in listed]}
    for channel in channels.values():
        channel.send("welcome", welcome)
    if problem:
        raise JoinError(problem)
    return Agents(me, listed, dict(sorted(channels.items())), LOOPBACK)


def describe_missing(
    members: Mapping[int, AgentInfo], count: int, address: Address, timeout_s: float
) -> str:
    """Returns the message that says which agents joined and which are missing."""
    joined = ", ".join(str(member) for member in members.values())
    missing = ", ".join(str(index) for index in range(count) if index not in members)
    return (
        f"{'no workers: ' if len(members) == 1 else ''}{len(members)} of {count} agents joined "
        f"{address.hosts[0]}:{address.port} within {timeout_s:g} s ({joined}); "
        f"missing: agent {missing}"
    )


def parse_hello(hello: Any, count: int) -> tuple[AgentInfo, dict[str, str]]:
    """Parses the hello of an agent other than 0.

    Returns:
        The AgentInfo of the agent, and the traits that it must share with all.

    Raises:
        ValueError: the value is not the hello of one of `count` agents.
    """
    if not isinstance(hello, dict) or set(hello) != {"member", "traits"}:
        raise ValueError("not the fields of a hello")
    member, traits = parse_member(hello["member"], count), hello["traits"]
    if member.index == 0:
        raise ValueError("there is one agent 0")
    if not isinstance(traits, dict) or not all(isinstance(value, str) for value in traits.values()):
        raise ValueError("traits: allowed is text")
    return member, traits


def disagreement(
    mine: AgentInfo, traits: Mapping[str, str], other: AgentInfo, theirs: Mapping[str, str]
) -> list[str]:
    """Describes the first trait that two agents do not share; returns [] if they share all."""
    for name, value in traits.items():
        if theirs.get(name) != value:
            return [f"agents disagree on {name}: {value} on {mine}, {theirs.get(name)} on {other}"]
    return []


def join_as_peer(
    meeting: Meeting, me: AgentInfo, traits: Mapping[str, str], deadline: float, timeout_s: float
) -> Agents:
    """Performs join() on an agent other than 0."""
    refused: list[str] = []
    found = until(deadline, lambda: connect(meeting, me, traits, refused))
    if found is None and refused:
        raise JoinError(
            f"connection refused at {refused[-1]}: "
            f"start agent 0 first ({me} tried for {timeout_s:g} s){meeting.choices}"
        )
    if found is None:
        raise JoinError(
            f"no agent 0 found within {timeout_s:g} s at {meeting}: "
            f"is it started, and can it be reached?{meeting.choices}"
        )
    channel, host = found
    try:
        _, welcome = channel.receive(max(HELLO_S, deadline + HELLO_S - time.monotonic()))
        problem = str(welcome["problem"])
        members = [parse_member(member, meeting.count) for member in welcome["members"]]
    except PeerLost as error:
        raise JoinError(f"agent 0 at {host} {error} before all agents had joined") from None
    except (KeyError, TypeError, ValueError) as error:
        answer = f"agent 0 at {host} answers what this benchkit does not know ({error!r})"
        raise JoinError(f"{answer}: is it of the same version?") from None
    if problem:
        raise JoinError(problem)
    return Agents(me, members, {0: channel}, host)


def connect(
    meeting: Meeting, me: AgentInfo, traits: Mapping[str, str], refused: list[str]
) -> tuple[Channel, str] | None:
    """Tries each name of agent 0 once.

    Args:
        refused: replaced by the addresses that refuse the connection in this try.

    Returns:
        The channel to agent 0 and the name that led to it, or None if no name did.
    """
    refused.clear()  # An earlier try says nothing about this one.
    places = [(host, address) for address in meeting.find() for host in address.candidates()]
    for host, address in places:
        try:
            stream = socket.create_connection((host, address.port), timeout=HELLO_S)
        except ConnectionRefusedError:
            refused.append(f"{host}:{address.port}")
            continue
        except (OSError, UnicodeError):  # UnicodeError: not the name of a host
            continue
        try:
            channel = call(stream, address.token)
        except Stranger:  # The address is from an earlier run.
            stream.close()
            continue
        channel.send("hello", {"member": asdict(me), "traits": dict(traits)})
        return channel, host
    return None
