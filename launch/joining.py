"""How the agents of one start come together: agent 0 lets the others in, and all must be about to run the same."""

import logging
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from launch.agents import Agents, alone
from launch.meeting import Address, JoinError, Meeting, until
from launch.members import Member, this_member
from launch.topology import Started
from launch.wires import GREETING_BYTES, Gone, Wire

HELLO_S = 5.0
"""How long either side of a new connection may take to say who it is."""
log = logging.getLogger(__name__)


def join(started: Started, traits: Mapping[str, str], folder: Path, timeout_s: float) -> Agents:
    """Brings the agents of one start together, within `timeout_s` seconds.

    traits: what all must have in common, by name. folder: shared by all nodes, where they meet by a file.
    Raises JoinError on every side where one does not come, or has another trait.
    """
    if started.count == 1:
        return alone()
    meeting, deadline = Meeting(started, folder), time.monotonic() + timeout_s
    me = this_member(started.index)
    if started.index:
        return visit(meeting, me, traits, deadline, timeout_s)
    listener, address = meeting.listen()
    try:
        return receive_all(listener, address, me, started.count, traits, deadline, timeout_s)
    finally:
        listener.close()
        meeting.leave()


def receive_all(
    listener: socket.socket, address: Address, me: Member, count: int, traits: Mapping[str, str], deadline: float,
    timeout_s: float,
) -> Agents:  # fmt: skip
    """Agent 0's part of join(): lets the others in, compares, and tells them who is there."""
    members, differences = {0: me}, list[str]()
    wires: dict[int, Wire] = {}
    while len(members) < count:
        greeted = greet(listener, address.token, deadline)
        if greeted is None:
            break
        wire, member, their_traits = greeted
        if member.index in wires:
            wires[member.index].close()
        members[member.index], wires[member.index] = member, wire
        differences += disagreement(me, traits, member, their_traits)
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
    return Agents(me, listed, dict(sorted(wires.items())), "127.0.0.1")


def greet(listener: socket.socket, token: str, deadline: float) -> tuple[Wire, Member, dict[str, str]] | None:
    """The next agent that knocks and knows the word; None where none did in time."""
    while (rest := deadline - time.monotonic()) > 0:
        listener.settimeout(rest)
        try:
            wire = Wire(listener.accept()[0])
        except OSError:
            return None
        try:
            _, hello = wire.receive(HELLO_S, GREETING_BYTES)
            if hello["token"] == token:
                wire.send("come in")
                wire.receive(HELLO_S, GREETING_BYTES)  # it is still there: "here"
                return wire, Member(**hello["member"]), dict(hello["traits"])
        except (Gone, TypeError, KeyError):
            log.debug("a stranger knocked")
        wire.close()
    return None


def disagreement(mine: Member, traits: Mapping[str, str], other: Member, theirs: Mapping[str, str]) -> list[str]:
    """The first trait that two agents do not share, in words."""
    for name, value in traits.items():
        if theirs.get(name) != value:
            return [f"agents disagree on {name}: {value} on {mine}, {theirs.get(name)} on {other}"]
    return []


def visit(meeting: Meeting, me: Member, traits: Mapping[str, str], deadline: float, timeout_s: float) -> Agents:
    """Another agent's part of join()."""
    refused: list[str] = []
    found = until(deadline, lambda: knock(meeting, me, traits, deadline, refused))
    if found is None and refused:
        raise JoinError(f"connection refused at {refused[-1]}: start agent 0 first ({me} tried for {timeout_s:g} s)")
    if found is None:
        raise JoinError(
            f"{me} found no agent 0 within {timeout_s:g} s at {meeting}: is it started, and can it be reached?"
        )
    wire, host = found
    try:
        _, welcome = wire.receive(max(HELLO_S, deadline + HELLO_S - time.monotonic()))
    except Gone as gone:
        raise JoinError(f"agent 0 at {host} {gone} before all agents had joined") from None
    if welcome["problem"]:
        raise JoinError(welcome["problem"])
    return Agents(me, [Member(**member) for member in welcome["members"]], {0: wire}, host)


def knock(
    meeting: Meeting, me: Member, traits: Mapping[str, str], deadline: float, refused: list[str]
) -> tuple[Wire, str] | None:
    """Tries every name of agent 0 once; a wire to it and the name that led there, or None.

    refused: takes the addresses at which nobody listens.
    """
    refused.clear()  # what an earlier try met says nothing of now
    address = meeting.find(deadline)
    if address is None:
        return None
    for host in address.candidates():
        try:
            wire = Wire(socket.create_connection((host, address.port), timeout=HELLO_S))
        except ConnectionRefusedError:
            refused.append(f"{host}:{address.port}")
            continue
        except OSError:
            continue
        wire.send("hello", {"token": address.token, "member": asdict(me), "traits": dict(traits)})
        try:
            wire.receive(HELLO_S)
            wire.send("here")
            return wire, host
        except Gone:  # somebody else: the address is an old one
            wire.close()
    return None
