"""An agent as the others know it, and what its loss means."""

from collections.abc import Sequence
from dataclasses import dataclass

from launch.topology import namespace, node_name, usable_cores


@dataclass(frozen=True)
class Member:
    """An agent as the others know it; hosts are the same where `network` is, and so are clocks where `clock` is."""

    index: int
    host: str
    network: str
    clock: str
    cores: list[int]

    def __str__(self) -> str:
        return f"agent {self.index} on {self.host}"


def this_member(index: int) -> Member:
    return Member(index, node_name(), namespace("net"), namespace("time"), usable_cores())


class SweepEnds(BaseException):
    """Nothing more can be measured: agent 0 or a whole node is gone."""


class Lost(Exception):
    """Agents are gone. `nodes`: they do not answer, and nobody knows what else is broken on their nodes."""

    def __init__(self, members: Sequence[Member], nodes: bool) -> None:
        how = "does not answer" if nodes else "is gone"
        super().__init__(f"{' and '.join(map(str, members))} {how}")
        self.members = list(members)
        self.nodes = nodes
