"""The agents of one run: a process on each place that a launcher gave us, all connected to agent 0.

They come together once, agree that they run the same, and then go through the points in step. Between two steps an
agent only sleeps: what the others have to say, and their death, wake it.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from launch.agents.address import LOOPBACK
from launch.agents.channel import Channel, PeerLost
from launch.agents.member import AgentInfo, Lost, SweepEnds, this_member
from launch.signals import StopRequested, to_stop_request, wait_for

SLACK_S = 5.0
"""How much longer than agent 0 the others wait, so that it is agent 0 that says who is missing."""
END_S = 600.0
"""How long agent 0 may take to end, once all points have run: it prints a table."""
EXCHANGE_TIMEOUT_S = 120.0
"""How long agents in step may take to the next one where nothing is measured or waited for; to import torch, say."""


class Agents:
    """All agents that live, as seen by one of them. Agent 0 has a wire to each, the others one to agent 0."""

    def __init__(self, me: AgentInfo, members: Sequence[AgentInfo], wires: Mapping[int, Channel], hub: str) -> None:
        self.me = me
        self.members = list(members)
        self.hub = hub  # the name under which this agent reaches agent 0's host
        self._wires = dict(wires)
        self._early: dict[int, Any] = {}
        self._gone: dict[int, PeerLost] = {}
        self._stopping = False

    @property
    def first(self) -> bool:
        """Whether this is agent 0, which writes the records."""
        return self.me.index == 0

    @property
    def connections(self) -> list[Any]:
        """What to wait for beside the ranks; give what is ready to hear()."""
        return [wire.connection for wire in self._wires.values()]

    def alarm(self, kind: str) -> None:
        """Tells all others that a rank here has failed."""
        self._tell("alarm", kind)

    def hear(self, ready: Sequence[Any]) -> str | None:
        """Takes in what others say; returns the kind of failure if one has failed. Raises Stopped, SweepEnds."""
        alarm = None
        for index, wire in list(self._wires.items()):
            if wire.connection not in ready:
                continue
            kind, value = self._receive(index, wire)
            if kind == "alarm":
                alarm = str(value)
                self._tell("alarm", alarm, but=index)
            elif kind == "value":
                self._early[index] = value
        return alarm

    def exchange(self, value: Any, timeout_s: float) -> list[Any]:
        """Every agent's value, in order of agents; values are plain JSON.

        Raises Lost on all agents alike where some are gone or give nothing in time, and forgets those.
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
        early, self._early = self._early, {}
        if self._gone:
            raise self._forget(self._tell_lost())
        values = [value, *(early[index] for index in self._wires)]
        self._tell("values", values)
        return values

    def lost_now(self, patience_s: float) -> Lost | None:
        """For agent 0: who has gone in these moments? A launcher ends all agents because one died: the cause."""
        if not self.first:
            return None
        deadline = time.monotonic() + patience_s
        while not self._gone and self._wires and (rest := deadline - time.monotonic()) > 0:
            with contextlib.suppress(StopRequested):  # told the same: not the cause
                self.hear(wait_for(self.connections, rest))
        return self._forget(self._tell_lost()) if self._gone else None

    def stop(self, told: StopRequested) -> None:
        """Tells all others to stop as well, unless they told us, or know."""
        if not (told.relayed or self._stopping):
            self._stopping = True
            self._tell("stop", [told.number, told.status, f"{self.me} was {told}"])

    @contextlib.contextmanager
    def stopping_together(self) -> Iterator[None]:
        """Where one agent is told to stop inside this, all are; agent 0 leaves first."""
        try:
            yield
        except KeyboardInterrupt as error:
            self.stop(to_stop_request(error))
            with contextlib.suppress(SweepEnds):
                self.wait_for_end(SLACK_S)
            raise

    def wait_for_end(self, timeout_s: float = END_S) -> None:
        """Blocks an agent other than 0 until agent 0 has ended.

        Launchers end everyone as soon as one agent ends. Raises SweepEnds where that
        takes longer than `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while not self.first and self._wires:
                self._wires[0].receive(max(0.0, deadline - time.monotonic()))
        except PeerLost as gone:
            if gone.silently:
                raise SweepEnds(f"{self.members[0]} {gone} after the last point") from None

    def ping(self, rounds: int) -> list[tuple[float, float, float]]:
        """Asks agent 0's clock `rounds` times: (sent, its time, received) by perf_counter. Agent 0 must pong()."""
        answers = []
        for _ in range(rounds):
            sent = time.perf_counter()
            self._wires[0].send("ping")
            _, there = self._receive(0, self._wires[0], EXCHANGE_TIMEOUT_S)
            answers.append((sent, float(there), time.perf_counter()))
        return answers

    def pong(self, member: AgentInfo, rounds: int) -> None:
        """Agent 0's side of ping()."""
        for _ in range(rounds):
            if member.index not in self._wires:
                return
            self._receive(member.index, self._wires[member.index], EXCHANGE_TIMEOUT_S)
            if member.index in self._wires:
                self._wires[member.index].send("time", time.perf_counter())

    def _receive(self, index: int, wire: Channel, timeout_s: float = EXCHANGE_TIMEOUT_S) -> tuple[str, Any]:
        """One message; on agent 0 the loss of another is an alarm, elsewhere that of agent 0 is the end."""
        try:
            kind, value = wire.receive(timeout_s)
        except PeerLost as gone:
            if not self.first:
                raise SweepEnds(f"{self.members[0]} {gone}: nobody is left to write records") from None
            self._lose(index, gone)
            return "alarm", "lost"
        if kind == "stop":
            self._tell("stop", value, but=index)
            if self.first:
                self._wires.pop(index)  # it says goodbye: its end is no loss
            number, status, why = value
            raise StopRequested(number, status, why, relayed=True)
        return kind, value

    def _ask(self, value: Any, timeout_s: float) -> list[Any]:
        wire, deadline = self._wires[0], time.monotonic() + timeout_s + SLACK_S
        wire.send("value", value)
        while True:
            kind, answer = self._receive(0, wire, max(0.0, deadline - time.monotonic()))
            if kind == "values":
                return list(answer)
            if kind == "lost":
                raise self._forget(Lost([AgentInfo(**lost) for lost in answer["members"]], answer["nodes"]))

    def _tell(self, kind: str, value: Any, but: int | None = None) -> None:
        """Says something to everybody at the other end of a wire, `but` to one: who said it first."""
        for index, wire in self._wires.items():
            if index != but:
                wire.send(kind, value)

    def _lose(self, index: int, gone: PeerLost) -> None:
        self._gone[index] = gone
        self._early.pop(index, None)
        self._wires.pop(index).close()

    def _tell_lost(self) -> Lost:
        lost = Lost([m for m in self.members if m.index in self._gone], any(g.silently for g in self._gone.values()))
        self._tell("lost", {"members": [asdict(member) for member in lost.members], "nodes": lost.nodes})
        self._gone = {}
        return lost

    def _forget(self, lost: Lost) -> Lost:
        gone = {member.index for member in lost.members}
        self.members = [member for member in self.members if member.index not in gone]
        return lost


def alone() -> Agents:
    """The only agent there is."""
    me = this_member(0)
    return Agents(me, [me], {}, LOOPBACK)
