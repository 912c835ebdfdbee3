"""The channels of one agent to its peers, and what happens when a peer is lost or stops.

The channels form a star: agent 0 has one to every other agent, each of which has one to agent 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from launch.agents.channel import Channel, PeerLost
from launch.agents.member import AgentInfo, Lost, SweepEnds
from launch.signals import STOPPING, StopRequested


class Peers:
    """All living agents as one of them sees them, with its channels.

    Attributes:
        me: the agent of this process.
        members: the AgentInfo of every living agent, in order of agents.
        losses: each loss of agents so far, in order.
    """

    def __init__(
        self, me: AgentInfo, members: Sequence[AgentInfo], wires: Mapping[int, Channel]
    ) -> None:
        self.me = me
        self.members = list(members)
        self._wires = dict(wires)
        self._early: dict[int, Any] = {}  # values received for an exchange(), by agent
        self._lost: dict[int, PeerLost] = {}
        self.losses: list[Lost] = []

    @property
    def first(self) -> bool:
        """Whether this is agent 0, which writes the records."""
        return self.me.index == 0

    @property
    def connections(self) -> list[Any]:
        """The connections to wait for beside the ranks; pass those that are ready to hear()."""
        return [channel.connection for channel in self._wires.values()]

    def _tell(self, kind: str, value: Any, but: int | None = None) -> None:
        """Sends a message to all peers except `but`, the one that it came from."""
        for index, channel in self._wires.items():
            if index != but:
                channel.send(kind, value)

    def _receive(self, index: int, timeout_s: float) -> tuple[str, Any]:
        """Receives one message from a peer; on agent 0 the loss of the peer is an alarm.

        Raises:
            StopRequested: the peer was told to stop; the other peers have been told.
            SweepEnds: agent 0 is lost.
        """
        try:
            kind, value = self._wires[index].receive(timeout_s)
        except PeerLost as error:
            if not self.first:
                problem = f"{self.members[0]} {error}: nobody is left to write records"
                raise SweepEnds(problem) from None
            self._lose(index, error)
            return "alarm", "lost"
        if kind == "stop":
            self._tell("stop", value, but=index)
            if self.first:
                self._wires.pop(index)  # The peer has announced its end, which is no loss.
            raise StopRequested(*parse_stop(value), relayed=True)
        return kind, value

    def _lose(self, index: int, gone: PeerLost) -> None:
        """Closes the channel to a lost peer and drops the value that it had sent."""
        self._lost[index] = gone
        self._early.pop(index, None)
        self._wires.pop(index).close()

    def _tell_lost(self) -> Lost:
        """Tells the remaining peers which agents are lost."""
        members = [member for member in self.members if member.index in self._lost]
        is_silent = any(error.silently for error in self._lost.values())
        self._tell(
            "lost", {"members": [asdict(member) for member in members], "host_is_silent": is_silent}
        )
        return Lost(members, is_silent)

    def _forget(self, lost: Lost) -> Lost:
        """Moves lost agents from `members` to `losses`."""
        self.losses.append(lost)
        self._lost = {}
        indices = {member.index for member in lost.members}
        self.members = [member for member in self.members if member.index not in indices]
        return lost


def parse_stop(plain: Any) -> tuple[int, str, str]:
    """Returns the signal, the status and the reason of another agent's request to stop.

    Raises:
        SweepEnds: it is something else.
    """
    match plain:
        case [int(number), str(status), str(why)] if number in STOPPING:
            return number, status, why
    raise SweepEnds("another agent sends what this benchkit does not know, as a request to stop")
