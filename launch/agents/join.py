"""How the agents of one start come together: agent 0 lets the others in, and all must be about to run the same."""

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


def join(started: LaunchContext, traits: Mapping[str, str], folder: Path, timeout_s: float) -> Agents:
    """Brings the agents of one start together, within `timeout_s` seconds.

    traits: what all must have in common, by name. folder: shared by all nodes, where they meet by a file.
    Raises JoinError on every side where one does not come, or has another trait.
    """
    if started.count == 1:
        return alone()
    meeting, deadline = Meeting(started, folder), time.monotonic() + timeout_s
    me = this_member(started.index)
    if started.index:
        return join_as_peer(meeting, me, traits, deadline, timeout_s)
    listener, address = meeting.listen()
    try:
        return receive_all(listener, address, me, started.count, traits, deadline, timeout_s)
    finally:
        listener.close()
        meeting.leave()


def receive_all(
    listener: socket.socket, address: Address, me: AgentInfo, count: int, traits: Mapping[str, str], deadline: float,
    timeout_s: float,
) -> Agents:  # fmt: skip
    """Agent 0's part of join(): lets the others in, compares, and tells them who is there."""
    members, differences = {0: me}, list[str]()
    wires: dict[int, Channel] = {}
    with contextlib.closing(callers(listener, address.token, deadline)) as proved:
        for wire, hello in proved:
            try:
                member, their_traits = parse_hello(hello, count)
            except ValueError as error:
                log.debug("a stranger that knows the secret: %s", error)
                wire.close()
                continue
            if member.index in wires:
                wires[member.index].close()
            members[member.index], wires[member.index] = member, wire
            differences += disagreement(me, traits, member, their_traits)
            if len(members) == count:
                break
    problem = differences[0] if differences else ""
    if len(members) < count:
        missing = ", ".join(str(index) for index in range(count) if index not in members)
        came = ", ".join(str(member) for member in members.values())
        problem = (
            f"{'no workers: ' if len(members) == 1 else ''}{len(members)} of {count} agents joined "
            f"{address.hosts[0]}:{address.port} within {timeout_s:g} s ({came}); missing: agent {missing}"
        )
    listed = [members[index] for index in sorted(members)]
    for wire in wires.values():
        wire.send("welcome", {"problem": problem, "members": [asdict(member) for member in listed]})
    if problem:
        raise JoinError(problem)
    return Agents(me, listed, dict(sorted(wires.items())), LOOPBACK)


def parse_hello(hello: Any, count: int) -> tuple[AgentInfo, dict[str, str]]:
    """Who an agent is, and what it must have in common with all.

    Raises ValueError where it is none of `count` agents, or says something else.
    """
    if not isinstance(hello, dict) or set(hello) != {"member", "traits"}:
        raise ValueError("not the fields of a hello")
    member, traits = parse_member(hello["member"], count), hello["traits"]
    if member.index == 0:
        raise ValueError("there is one agent 0")
    if not isinstance(traits, dict) or not all(isinstance(value, str) for value in traits.values()):
        raise ValueError("traits: allowed is text")
    return member, traits


def disagreement(mine: AgentInfo, traits: Mapping[str, str], other: AgentInfo, theirs: Mapping[str, str]) -> list[str]:
    """The first trait that two agents do not share, in words."""
    for name, value in traits.items():
        if theirs.get(name) != value:
            return [f"agents disagree on {name}: {value} on {mine}, {theirs.get(name)} on {other}"]
    return []


def join_as_peer(
    meeting: Meeting, me: AgentInfo, traits: Mapping[str, str], deadline: float, timeout_s: float
) -> Agents:
    """Another agent's part of join()."""
    refused: list[str] = []
    found = until(deadline, lambda: connect(meeting, me, traits, deadline, refused))
    if found is None and refused:
        raise JoinError(f"connection refused at {refused[-1]}: start agent 0 first ({me} tried for {timeout_s:g} s)")
    if found is None:
        raise JoinError(
            f"{me} found no agent 0 within {timeout_s:g} s at {meeting}: is it started, and can it be reached?"
        )
    wire, host = found
    try:
        _, welcome = wire.receive(max(HELLO_S, deadline + HELLO_S - time.monotonic()))
        problem, count = str(welcome["problem"]), meeting.count
        members = [parse_member(member, count) for member in welcome["members"]]
    except PeerLost as gone:
        raise JoinError(f"agent 0 at {host} {gone} before all agents had joined") from None
    except (KeyError, TypeError, ValueError) as error:
        said = f"agent 0 at {host} answers what this benchkit does not know ({error!r})"
        raise JoinError(f"{said}: is it of the same version?") from None
    if problem:
        raise JoinError(problem)
    return Agents(me, members, {0: wire}, host)


def connect(
    meeting: Meeting, me: AgentInfo, traits: Mapping[str, str], deadline: float, refused: list[str]
) -> tuple[Channel, str] | None:
    """Tries every name of agent 0 once; a wire to it and the name that led there, or None.

    refused: takes the addresses at which nobody listens.
    """
    refused.clear()  # what an earlier try met says nothing of now
    address = meeting.find(deadline)
    if address is None:
        return None
    for host in address.candidates():
        try:
            stream = socket.create_connection((host, address.port), timeout=HELLO_S)
        except ConnectionRefusedError:
            refused.append(f"{host}:{address.port}")
            continue
        except (OSError, UnicodeError):  # UnicodeError: no name of a host
            continue
        try:
            wire = call(stream, address.token)
        except Stranger:  # the address is an old one
            stream.close()
            continue
        wire.send("hello", {"member": asdict(me), "traits": dict(traits)})
        return wire, host
    return None
