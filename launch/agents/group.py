"""Collectives, alarms and loss detection among the agents of one start."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from launch.agents.address import LOOPBACK
from launch.agents.channel import Channel, PeerLost
from launch.agents.messages import (
    AgentInfo,
    Lost,
    LostMessage,
    StopMessage,
    SweepEnds,
    parse_message,
    this_member,
)
from launch.signals import StopRequested, to_stop_request, wait_readable

SLACK_S = 5.0
"""Extra timeout of the others, so that agent 0 times out first and reports who is missing."""
END_S = 600.0
"""Time limit for agent 0 to end after the last point: it still prints a table."""
EXCHANGE_TIMEOUT_S = 180.0
"""Time limit of a collective between steps without a measurement, such as finding the GPUs."""
T = TypeVar("T")


class Agents:
    """The group of living agents, seen from one of them.

    The topology is a star: agent 0 has a channel to each other agent. `hub` is the name of agent
    0's host as this agent reaches it.
    """

    def __init__(
        self,
        me: AgentInfo,
        members: Sequence[AgentInfo],
        channels: Mapping[int, Channel],
        hub: str,
    ) -> None:
        self.me = me
        self.members = list(members)
        self.hub = hub
        self.losses: list[Lost] = []
        self._channels = dict(channels)
        self._early: dict[int, object] = {}  # values received before they are gathered, by agent
        self._lost: dict[int, PeerLost] = {}
        self._stopping = False

    @property
    def first(self) -> bool:
        """Whether this is agent 0, which writes the records."""
        return self.me.index == 0

    @property
    def connections(self) -> list[Any]:
        """Connections to poll beside the ranks; pass those that are ready to hear()."""
        return [channel.connection for channel in self._channels.values()]

    def all_gather(self, value: object, kind: type[T], timeout_s: float = EXCHANGE_TIMEOUT_S) -> T:
        """Return the values of all agents, in order of agents; all call this together.

        Args:
            kind: type of the result, such as list[int].
            timeout_s: time limit of agent 0's wait for the others.

        Raises:
            Lost: on all remaining agents, which continue without those that are lost or late.
            SweepEnds: a value has another type, or agent 0 is lost.
        """
        return parse_message(self._gather_plain(value, timeout_s), kind)

    def broadcast(self, value: T | None, kind: type[T], timeout_s: float = EXCHANGE_TIMEOUT_S) -> T:
        """Return agent 0's value on all agents; the others may pass None.

        All agents call this together. It raises the exceptions of all_gather().
        """
        values = self._gather_plain(value if self.first else None, timeout_s)
        if self.first:
            assert value is not None
            return value
        return parse_message(values[0], kind)

    def _gather_plain(self, value: object, timeout_s: float) -> list[object]:
        plain = msgspec.to_builtins(value)
        if not self.first:
            return self._send_and_receive_all(plain, timeout_s)
        deadline = time.monotonic() + timeout_s
        while missing := [index for index in self._channels if index not in self._early]:
            ready = wait_readable(self.connections, max(0.0, deadline - time.monotonic()))
            if not ready:
                for index in missing:
                    self._lose(index, PeerLost(silently=True))
            self.hear(ready)
        early = self._early
        self._early = {}
        if self._lost:
            raise self._remove_lost(self._report_lost())
        values = [plain, *(early[index] for index in self._channels)]
        self._send_to_all("values", values)
        return values

    def _send_and_receive_all(self, plain: object, timeout_s: float) -> list[object]:
        deadline = time.monotonic() + timeout_s + SLACK_S
        self._channels[0].send("value", plain)
        while True:
            kind, answer = self._receive(0, max(0.0, deadline - time.monotonic()))
            if kind == "values":
                values = parse_message(answer, list[object])
                if len(values) != len(self.members):
                    raise SweepEnds(f"agent 0 tells {len(values)} values, not {len(self.members)}")
                return values
            if kind == "lost":
                lost = parse_message(answer, LostMessage)
                raise self._remove_lost(Lost(lost.members, lost.host_is_silent))

    def alarm(self, kind: str) -> None:
        self._send_to_all("alarm", kind)

    def hear(self, ready: Sequence[Any]) -> str | None:
        """Read messages from the connections that are ready; return the kind of an alarm, or None.

        Raises:
            StopRequested: another agent received a signal to stop.
            SweepEnds: agent 0 is lost.
        """
        alarm = None
        for index, channel in list(self._channels.items()):
            if channel.connection not in ready:
                continue
            kind, value = self._receive(index, EXCHANGE_TIMEOUT_S)
            if kind == "alarm":
                alarm = parse_message(value, str)
                self._send_to_all("alarm", alarm, exclude=index)
            elif kind == "value":
                self._early[index] = value
        return alarm

    def losses_after(self, num_known: int, patience_s: float) -> list[Lost]:
        """Return the losses after the first `num_known` ones.

        Without any, agent 0 waits up to `patience_s` seconds for one: a launcher terminates all
        agents when one dies, and its signal may arrive before the loss is detected.
        """
        deadline = time.monotonic() + patience_s
        while self.first and self._channels and not self._lost and len(self.losses) == num_known:
            if (rest_s := deadline - time.monotonic()) <= 0:
                break
            with contextlib.suppress(StopRequested):  # A peer got the signal, too: not the cause.
                self.hear(wait_readable(self.connections, rest_s))
        if self._lost:
            self._remove_lost(self._report_lost())
        return self.losses[num_known:]

    def stop(self, request: StopRequested) -> None:
        """Send the stop request to all others, unless it came from them or was sent before."""
        if not (request.relayed or self._stopping):
            self._stopping = True
            self._send_to_all(
                "stop", StopMessage(request.number, request.status, f"{self.me} was {request}")
            )

    @contextlib.contextmanager
    def stop_together(self) -> Iterator[None]:
        """Stop all agents if one of them gets a signal to stop here; agent 0 ends first."""
        try:
            yield
        except KeyboardInterrupt as error:
            self.stop(to_stop_request(error))
            with contextlib.suppress(SweepEnds):
                self.wait_for_end(SLACK_S)
            raise

    def wait_for_end(self, timeout_s: float = END_S) -> None:
        """Block an agent other than 0 until agent 0 has ended; raise SweepEnds after `timeout_s`.

        Launchers terminate all processes as soon as one of them ends.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while not self.first and self._channels:
                self._channels[0].receive(max(0.0, deadline - time.monotonic()))
        except PeerLost as error:
            if error.silently:
                raise SweepEnds(f"{self.members[0]} {error} after the last point") from None

    def ping(self, rounds: int) -> list[tuple[float, float, float]]:
        """Read agent 0's clock `rounds` times, while agent 0 calls pong().

        Return per round (sent, agent 0's time, received), each in seconds of perf_counter.
        """
        answers = []
        for _ in range(rounds):
            sent_s = time.perf_counter()
            self._channels[0].send("ping")
            _, remote_s = self._receive(0, EXCHANGE_TIMEOUT_S)
            received_s = time.perf_counter()
            answers.append((sent_s, parse_message(remote_s, float), received_s))
        return answers

    def pong(self, member: AgentInfo, rounds: int) -> None:
        for _ in range(rounds):
            if member.index not in self._channels:
                return
            self._receive(member.index, EXCHANGE_TIMEOUT_S)
            if member.index in self._channels:
                self._channels[member.index].send("time", time.perf_counter())

    def _send_to_all(self, kind: str, value: object, exclude: int | None = None) -> None:
        for index, channel in self._channels.items():
            if index != exclude:
                channel.send(kind, value)

    def _receive(self, index: int, timeout_s: float) -> tuple[str, object]:
        """Receive one message from a peer; on agent 0 the loss of the peer is an alarm.

        Raises:
            StopRequested: the peer received a signal to stop; it was relayed to the other peers.
            SweepEnds: agent 0 is lost.
        """
        try:
            kind, value = self._channels[index].receive(timeout_s)
        except PeerLost as error:
            if not self.first:
                problem = f"{self.members[0]} {error}: nobody is left to write records"
                raise SweepEnds(problem) from None
            self._lose(index, error)
            return "alarm", "lost"
        if kind == "stop":
            self._send_to_all("stop", value, exclude=index)
            if self.first:
                self._channels.pop(index)  # The peer has announced its end, which is no loss.
            stop = parse_message(value, StopMessage)
            raise StopRequested(stop.number, stop.status, stop.why, relayed=True)
        return kind, value

    def _lose(self, index: int, error: PeerLost) -> None:
        self._lost[index] = error
        self._early.pop(index, None)
        self._channels.pop(index).close()

    def _report_lost(self) -> Lost:
        members = [member for member in self.members if member.index in self._lost]
        is_silent = any(error.silently for error in self._lost.values())
        self._send_to_all("lost", LostMessage(members, is_silent))
        return Lost(members, is_silent)

    def _remove_lost(self, lost: Lost) -> Lost:
        self.losses.append(lost)
        self._lost = {}
        indices = {member.index for member in lost.members}
        self.members = [member for member in self.members if member.index not in indices]
        return lost


def single_agent() -> Agents:
    me = this_member(0)
    return Agents(me, [me], {}, LOOPBACK)
