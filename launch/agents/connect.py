"""How the agents of one start connect, and agree that all run the same."""

import contextlib
import logging
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launch.agents.address import (
    LOOPBACK,
    Address,
    close_all,
    dial,
    host_and_port,
    is_path,
    why_not,
)
from launch.agents.channel import Channel, PeerLost
from launch.agents.group import Agents, alone
from launch.agents.handshake import HELLO_S, Stranger, call, callers
from launch.agents.messages import AgentInfo, parse_member, this_member
from launch.agents.rendezvous import ADVICE, JoinError, Meeting, until
from launch.launcher_env import LaunchContext

log = logging.getLogger(__name__)


def join(
    started: LaunchContext,
    traits: Mapping[str, str],
    folder: Path,
    timeout_s: float,
    trusts_network: bool = False,
) -> Agents:
    """Join the agents of one start.

    Args:
        traits: what all agents must have in common, by name.
        folder: where agents meet by a file, if the nodes share it.
        timeout_s: limit of the whole join.
        trusts_network: a secret that others can guess will do between hosts.

    Raise JoinError on every agent where one does not come or has another trait.
    """
    if started.count == 1:
        return alone()
    meeting = Meeting(started, folder, trusts_network)
    deadline = time.monotonic() + timeout_s
    me = this_member(started.index)
    if started.index:
        return join_as_peer(meeting, me, traits, deadline, timeout_s)
    listeners, address = meeting.listen()
    try:
        return receive_all(listeners, address, me, meeting, traits, deadline, timeout_s)
    finally:
        close_all(listeners)
        meeting.leave()


def receive_all(
    listeners: Sequence[socket.socket],
    address: Address,
    me: AgentInfo,
    meeting: Meeting,
    traits: Mapping[str, str],
    deadline: float,
    timeout_s: float,
) -> Agents:
    count = meeting.count
    members = {0: me}
    channels: dict[int, Channel] = {}
    differences: list[str] = []
    with contextlib.closing(callers(listeners, address.token, deadline)) as proved:
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
    joined = ", ".join(str(member) for member in members.values())
    missing = ", ".join(str(index) for index in range(count) if index not in members)
    return (
        f"{'no workers: ' if len(members) == 1 else ''}{len(members)} of {count} agents joined "
        f"{host_and_port(address.hosts[0], address.port)} within {timeout_s:g} s ({joined}); "
        f"missing: agent {missing}"
    )


def parse_hello(hello: Any, count: int) -> tuple[AgentInfo, dict[str, str]]:
    """Parse a hello; raise ValueError if it is not from one of `count` agents, or from agent 0."""
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
    for name, value in traits.items():
        if theirs.get(name) != value:
            return [f"agents disagree on {name}: {value} on {mine}, {theirs.get(name)} on {other}"]
    return []


def join_as_peer(
    meeting: Meeting, me: AgentInfo, traits: Mapping[str, str], deadline: float, timeout_s: float
) -> Agents:
    tried: dict[str, str] = {}
    found = until(deadline, lambda: connect(meeting, me, traits, tried))
    if found is None and tried:
        where = ", ".join(f"{place} ({why})" for place, why in tried.items())
        raise JoinError(
            f"agent 0 is not reached within {timeout_s:g} s; {me} tried {where}: "
            f"start agent 0 first, or {ADVICE}{meeting.choices}"
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
    meeting: Meeting, me: AgentInfo, traits: Mapping[str, str], tried: dict[str, str]
) -> tuple[Channel, str] | None:
    """Try each name of agent 0 once; return the channel and the name that led to it.

    `tried` is replaced by the addresses that led nowhere in this try, and why.
    """
    places = [(host, address) for address in meeting.find() for host in address.candidates()]
    if places:
        tried.clear()  # An earlier try says nothing about this one.
    for host, address in places:
        place = host_and_port(host, address.port)
        try:
            stream = dial(host, address.port, HELLO_S)
        except (OSError, UnicodeError) as error:  # UnicodeError: not the name of a host
            tried[place] = why_not(error)
            continue
        try:
            channel = call(stream, address.token)
        except Stranger:  # The address is from an earlier run.
            tried[place] = "another program answers"
            stream.close()
            continue
        channel.send("hello", {"member": asdict(me), "traits": dict(traits)})
        return channel, LOOPBACK if is_path(host) else host
    return None
