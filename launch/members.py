"""An agent as the others know it."""

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
