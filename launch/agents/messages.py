"""What agents tell each other, and how an agent is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from launch.host import namespace, node_name, usable_cores


@dataclass(frozen=True)
class AgentInfo:
    """An agent as the others know it.

    Agents with the same `network` are on the same host; those with the same `clock` share a clock.
    """

    index: int
    host: str
    network: str
    clock: str
    cores: list[int]

    def __str__(self) -> str:
        return f"agent {self.index} on {self.host}"


def parse_member(plain: Any, count: int) -> AgentInfo:
    """Parse plain JSON; raise ValueError if it is not the AgentInfo of one of `count` agents."""
    texts, numbers = ("host", "network", "clock"), ("index", "cores")
    if not isinstance(plain, dict) or set(plain) != {*texts, *numbers}:
        raise ValueError("not the fields of an agent")
    if not all(isinstance(plain[name], str) for name in texts):
        raise ValueError(f"{', '.join(texts)}: allowed is text")
    cores = plain["cores"]
    if not isinstance(cores, list) or not all(type(core) is int for core in cores):
        raise ValueError("cores: allowed is a list of numbers")
    if type(plain["index"]) is not int or not 0 <= plain["index"] < count:
        raise ValueError(f"index: allowed are 0 to {count - 1}")
    return AgentInfo(**plain)


def this_member(index: int) -> AgentInfo:
    return AgentInfo(index, node_name(), namespace("net"), namespace("time"), usable_cores())


class SweepEnds(BaseException):
    """Nothing more can be measured: agent 0 or a whole node is lost."""


class Lost(Exception):
    """Agents are lost.

    `host_is_silent`: no lost agent's host answers, so its state is unknown; else only the processes
    of agents ended.
    """

    def __init__(self, members: Sequence[AgentInfo], host_is_silent: bool) -> None:
        how = "does not answer" if host_is_silent else "is gone"
        super().__init__(f"{' and '.join(map(str, members))} {how}")
        self.members = list(members)
        self.host_is_silent = host_is_silent
