"""Types of the messages between agents; exceptions for lost agents and the end of a sweep.

Messages hold numbers, names and texts for people. No program, path, module or configuration is
taken from another agent.
"""

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from launch.host import affinity_cores, namespace, node_name
from launch.signals import STOP_SIGNALS

T = TypeVar("T")


class JoinError(Exception):
    """The rendezvous failed; the message says who joined, who is missing and what to do."""


class SweepEnds(BaseException):
    """Nothing more can be measured: agent 0 or a whole node is lost."""


def parse_message(plain: object, kind: type[T]) -> T:
    """Convert plain JSON from another agent to a type; raise SweepEnds if it does not fit."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise SweepEnds(f"another agent sends what this benchkit does not know ({error})") from None


class AgentInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent as the others know it.

    Agents with the same `network` are on the same host; those with the same `clock` share a clock.
    """

    index: Annotated[int, Meta(ge=0)]
    host: str
    network: str
    clock: str
    cores: list[int]

    def __str__(self) -> str:
        return f"agent {self.index} on {self.host}"


def this_member(index: int) -> AgentInfo:
    return AgentInfo(index, node_name(), namespace("net"), namespace("time"), affinity_cores())


class Hello(Struct, frozen=True, forbid_unknown_fields=True):
    """First message of an agent to agent 0; `traits` must be equal on all agents."""

    member: AgentInfo
    traits: dict[str, str]


class Welcome(Struct, frozen=True):
    """Agent 0's answer to all: the members, or the problem that ends the run."""

    problem: str | None
    members: list[AgentInfo]


class StopMessage(Struct, frozen=True):
    """Another agent received a signal to stop; `number` is the signal's."""

    number: int
    status: str
    why: str

    def __post_init__(self) -> None:
        if self.number not in STOP_SIGNALS:
            raise ValueError(f"{self.number} as a request to stop")


class LostMessage(Struct, frozen=True):
    """Agents that agent 0 has lost; the others drop them as well."""

    members: list[AgentInfo]
    host_is_silent: bool


class Lost(Exception):
    """Agents are lost.

    `host_is_silent`: a host does not answer, so its state is unknown; else only processes of agents
    have ended.
    """

    def __init__(self, members: Sequence[AgentInfo], host_is_silent: bool) -> None:
        verb = "does not answer" if host_is_silent else "is gone"
        super().__init__(f"{' and '.join(map(str, members))} {verb}")
        self.members = list(members)
        self.host_is_silent = host_is_silent
