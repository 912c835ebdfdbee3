"""The agents of one start: their channels, and what happens when one is lost."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from launch.agents.address import (
    LOOPBACK,
)
from launch.agents.channel import Channel, PeerLost
from launch.agents.messages import AgentInfo, Lost, SweepEnds, this_member
from launch.signals import STOPPING, StopRequested, to_stop_request, wait_for


class Peers:
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
        """What to wait for beside the ranks; pass those that are ready to hear()."""
        return [channel.connection for channel in self._wires.values()]

    def _tell(self, kind: str, value: Any, but: int | None = None) -> None:
        for index, channel in self._wires.items():
            if index != but:
                channel.send(kind, value)

    def _receive(self, index: int, timeout_s: float) -> tuple[str, Any]:
        """Receive one message from a peer; on agent 0 the loss of the peer is an alarm.

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
        self._lost[index] = gone
        self._early.pop(index, None)
        self._wires.pop(index).close()

    def _tell_lost(self) -> Lost:
        members = [member for member in self.members if member.index in self._lost]
        is_silent = any(error.silently for error in self._lost.values())
        self._tell(
            "lost", {"members": [asdict(member) for member in members], "host_is_silent": is_silent}
        )
        return Lost(members, is_silent)

    def _forget(self, lost: Lost) -> Lost:
        self.losses.append(lost)
        self._lost = {}
        indices = {member.index for member in lost.members}
        self.members = [member for member in self.members if member.index not in indices]
        return lost


def parse_stop(plain: Any) -> tuple[int, str, str]:
    match plain:
        case [int(number), str(status), str(why)] if number in STOPPING:
            return number, status, why
    raise SweepEnds("another agent sends what this benchkit does not know, as a request to stop")


SLACK_S = 5.0
"""Seconds that the others wait longer than agent 0, so that agent 0 reports who is missing."""
END_S = 600.0
"""Seconds that agent 0 may take to end after the last point, because it prints a table."""
EXCHANGE_TIMEOUT_S = 180.0
"""Seconds between two steps without a measurement or a wait, for example to find the GPUs."""


class Agents(Peers):
    """All living agents as one of them sees them; `hub` is its name for agent 0's host."""

    def __init__(
        self,
        me: AgentInfo,
        members: Sequence[AgentInfo],
        wires: Mapping[int, Channel],
        hub: str,
    ) -> None:
        super().__init__(me, members, wires)
        self.hub = hub
        self._stopping = False

    def alarm(self, kind: str) -> None:
        self._tell("alarm", kind)

    def hear(self, ready: Sequence[Any]) -> str | None:
        """Read messages from the connections that are ready; return the failure that one reports.

        Raises:
            StopRequested: another agent was told to stop.
            SweepEnds: agent 0 is lost.
        """
        alarm = None
        for index, channel in list(self._wires.items()):
            if channel.connection not in ready:
                continue
            kind, value = self._receive(index, EXCHANGE_TIMEOUT_S)
            if kind == "alarm":
                alarm = str(value)
                self._tell("alarm", alarm, but=index)
            elif kind == "value":
                self._early[index] = value
        return alarm

    def exchange(self, value: Any, timeout_s: float) -> list[Any]:
        """Return the value of every agent, in order of agents; values are plain JSON.

        Raise Lost on all remaining agents, and drop those that are lost or sent no value in time.
        """
        if not self.first:
            return self._ask(value, timeout_s)
        deadline = time.monotonic() + timeout_s
        while missing := [index for index in self._wires if index not in self._early]:
            ready = wait_for(self.connections, max(0.0, deadline - time.monotonic()))
            if not ready:
                for index in missing:
                    self._lose(index, PeerLost(silently=True))
            self.hear(ready)
        early = self._early
        self._early = {}
        if self._lost:
            raise self._forget(self._tell_lost())
        values = [value, *(early[index] for index in self._wires)]
        self._tell("values", values)
        return values

    def losses_after(self, known: int, patience_s: float) -> list[Lost]:
        """Return the losses after the first `known` ones.

        If there are none yet, agent 0 waits for one up to `patience_s` seconds: a launcher ends all
        agents because one died, and may be faster than the news of its death.
        """
        deadline = time.monotonic() + patience_s
        while self.first and self._wires and not self._lost and len(self.losses) == known:
            if (rest_s := deadline - time.monotonic()) <= 0:
                break
            with contextlib.suppress(StopRequested):  # A peer was told to stop, too: not the cause.
                self.hear(wait_for(self.connections, rest_s))
        if self._lost:
            self._forget(self._tell_lost())
        return self.losses[known:]

    def stop(self, told: StopRequested) -> None:
        """Tell all others to stop as well, unless the request came from them or they know."""
        if not (told.relayed or self._stopping):
            self._stopping = True
            self._tell("stop", [told.number, told.status, f"{self.me} was {told}"])

    @contextlib.contextmanager
    def stopping_together(self) -> Iterator[None]:
        """Stop all agents if one of them is told to stop in this context; agent 0 ends first."""
        try:
            yield
        except KeyboardInterrupt as error:
            self.stop(to_stop_request(error))
            with contextlib.suppress(SweepEnds):
                self.wait_for_end(SLACK_S)
            raise

    def wait_for_end(self, timeout_s: float = END_S) -> None:
        """Block an agent other than 0 until agent 0 has ended; raise SweepEnds after `timeout_s`.

        Launchers end all processes as soon as one of them ends.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while not self.first and self._wires:
                self._wires[0].receive(max(0.0, deadline - time.monotonic()))
        except PeerLost as error:
            if error.silently:
                raise SweepEnds(f"{self.members[0]} {error} after the last point") from None

    def ping(self, rounds: int) -> list[tuple[float, float, float]]:
        """Read agent 0's clock `rounds` times, while agent 0 calls pong().

        Return per round the time sent, agent 0's time and the time received, by perf_counter.
        """
        answers = []
        for _ in range(rounds):
            sent = time.perf_counter()
            self._wires[0].send("ping")
            _, remote = self._receive(0, EXCHANGE_TIMEOUT_S)
            answers.append((sent, float(remote), time.perf_counter()))
        return answers

    def pong(self, member: AgentInfo, rounds: int) -> None:
        for _ in range(rounds):
            if member.index not in self._wires:
                return
            self._receive(member.index, EXCHANGE_TIMEOUT_S)
            if member.index in self._wires:
                self._wires[member.index].send("time", time.perf_counter())

    def _ask(self, value: Any, timeout_s: float) -> list[Any]:
        deadline = time.monotonic() + timeout_s + SLACK_S
        self._wires[0].send("value", value)
        while True:
            kind, answer = self._receive(0, max(0.0, deadline - time.monotonic()))
            if kind == "values":
                return list(answer)
            if kind == "lost":
                members = [AgentInfo(**plain) for plain in answer["members"]]
                raise self._forget(Lost(members, answer["host_is_silent"]))


def alone() -> Agents:
    me = this_member(0)
    return Agents(me, [me], {}, LOOPBACK)
