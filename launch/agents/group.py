"""The agents of one run: one process at each place that a launcher provides, connected to agent 0.

They join once, agree on what they run, and then go through the points in step. Between two steps
an agent only sleeps: a message from another agent, or its death, wakes it.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launch.agents.address import LOOPBACK
from launch.agents.channel import Channel, PeerLost
from launch.agents.member import AgentInfo, Lost, SweepEnds, this_member
from launch.agents.peers import Peers
from launch.signals import StopRequested, to_stop_request, wait_for

SLACK_S = 5.0
"""Seconds that the others wait longer than agent 0, so that agent 0 reports who is missing."""
END_S = 600.0
"""Seconds that agent 0 may take to end after the last point, because it prints a table."""
EXCHANGE_TIMEOUT_S = 180.0
"""Seconds between two steps without a measurement or a wait, for example to find the GPUs."""


class Agents(Peers):
    """All living agents as one of them sees them, with the steps that they take together.

    Attributes:
        hub: the name under which this agent reaches agent 0's host.
    """

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
        """Tells all others that a rank of this agent has failed."""
        self._tell("alarm", kind)

    def hear(self, ready: Sequence[Any]) -> str | None:
        """Reads messages from the connections that are ready.

        Returns:
            The kind of failure if an agent reports one, else None.

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
        """Returns the value of every agent, in order of agents; values are plain JSON.

        Raises:
            Lost: some agents are lost or sent no value in time. All remaining agents raise the
                same and drop those agents.
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
        """Returns the losses after the first `known` ones.

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
        """Tells all others to stop as well, unless the request came from them or they know."""
        if not (told.relayed or self._stopping):
            self._stopping = True
            self._tell("stop", [told.number, told.status, f"{self.me} was {told}"])

    @contextlib.contextmanager
    def stopping_together(self) -> Iterator[None]:
        """Stops all agents if one of them is told to stop in this context; agent 0 ends first."""
        try:
            yield
        except KeyboardInterrupt as error:
            self.stop(to_stop_request(error))
            with contextlib.suppress(SweepEnds):
                self.wait_for_end(SLACK_S)
            raise

    def wait_for_end(self, timeout_s: float = END_S) -> None:
        """Blocks an agent other than 0 until agent 0 has ended.

        The reason is that launchers end all processes as soon as one of them ends.

        Raises:
            SweepEnds: agent 0 has not ended within `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while not self.first and self._wires:
                self._wires[0].receive(max(0.0, deadline - time.monotonic()))
        except PeerLost as error:
            if error.silently:
                raise SweepEnds(f"{self.members[0]} {error} after the last point") from None

    def ping(self, rounds: int) -> list[tuple[float, float, float]]:
        """Reads agent 0's clock `rounds` times, while agent 0 calls pong().

        Returns:
            Per round the time sent, agent 0's time and the time received, in seconds by
            perf_counter.
        """
        answers = []
        for _ in range(rounds):
            sent = time.perf_counter()
            self._wires[0].send("ping")
            _, remote = self._receive(0, EXCHANGE_TIMEOUT_S)
            answers.append((sent, float(remote), time.perf_counter()))
        return answers

    def pong(self, member: AgentInfo, rounds: int) -> None:
        """Answers the ping() of another agent; called on agent 0."""
        for _ in range(rounds):
            if member.index not in self._wires:
                return
            self._receive(member.index, EXCHANGE_TIMEOUT_S)
            if member.index in self._wires:
                self._wires[member.index].send("time", time.perf_counter())

    def _ask(self, value: Any, timeout_s: float) -> list[Any]:
        """Performs exchange() on an agent other than 0."""
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
    """Returns the group of a run with one agent."""
    me = this_member(0)
    return Agents(me, [me], {}, LOOPBACK)
