"""The agents of this run as benchkit sees them: what each has, one clock, and every host to ourselves."""

import contextlib
import functools
import itertools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist

from benchkit import environment
from launch.agents import STEP_S, Agents, alone
from launch.clock_offsets import OffsetTracker
from launch.host_lock import HostLock
from launch.members import Lost, Member, SweepEnds

QUEUE_S = 7 * 24 * 3600.0
"""How long a host may be taken by other runs."""
WAIT = "wait_for_host"
"""Name of the phase in which other runs measure on the hosts."""
log = logging.getLogger("benchkit")


@dataclass
class Crew:
    """The agents of this run and what each has told of itself, by its index."""

    agents: Agents
    facts: dict[int, dict[str, Any]]
    clock: OffsetTracker = field(default_factory=OffsetTracker)
    _points: Iterator[int] = field(default_factory=itertools.count)

    @property
    def clock_is_shared(self) -> bool:
        """Whether one monotonic clock serves all agents, as on one host."""
        return len({member.clock for member in self.agents.members}) == 1

    def next_point(self) -> str:
        """A name for a point's place in the store; the same on all agents, which go through the points in step."""
        return f"point/{next(self._points)}"

    def on_host_of(self, member: Member) -> list[Member]:
        """The agents that share a member's host, itself among them."""
        return [other for other in self.agents.members if other.network == member.network]

    @contextlib.contextmanager
    def hosts_to_ourselves(self, phases_s: dict[str, float]) -> Iterator[None]:
        """Holds the lock of every host; taken in the order of their names, so that no two runs wait for each other.

        The wait for other runs is a phase of its own: it says nothing about this point.
        """
        lock, asked_s = HostLock(), time.perf_counter()
        try:
            try:
                self.take_turns(lock)
            finally:
                phases_s[WAIT] = round(time.perf_counter() - asked_s, 6)
            yield
        finally:
            lock.release()

    def take_turns(self, lock: HostLock) -> None:
        """Waits until no other run measures on any host."""
        me = self.agents.me
        for host in sorted({member.network for member in self.agents.members}):
            if me.network == host and self.on_host_of(me)[0] == me:
                lock.acquire(
                    lambda pid: log.warning("%s: waiting for process %d, which measures", me.host, pid), self.agents
                )
            self.agents.exchange(None, QUEUE_S)


_joined: list[Agents] = []


def enter(agents: Agents) -> None:
    """Makes these the agents of all points from now on."""
    _joined[:] = [agents]
    crew.cache_clear()


@functools.cache
def crew() -> Crew:
    """The agents that entered, each asked for its facts; this process alone where none did."""
    agents = _joined[0] if _joined else alone()
    told = None
    while told is None:
        try:
            told = agents.exchange(own_facts(agents), STEP_S)
        except Lost as lost:
            if lost.nodes:
                raise SweepEnds(str(lost)) from None
            log.warning("%s; the others go on", lost)
    return Crew(agents, {member.index: facts for member, facts in zip(agents.members, told, strict=True)})


def own_facts(agents: Agents) -> dict[str, Any]:
    """What the others must know of this agent."""
    return {
        **environment.of_agent(),
        "visible_gpus": environment.visible_gpus(),
        "store_port": store().port if agents.first else None,
    }


@functools.cache
def store() -> dist.TCPStore:
    """Agent 0's store, through which all points' ranks find each other, on a port that the system chose."""
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
