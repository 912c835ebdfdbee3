"""How far another host's monotonic clock is from agent 0's, by whose time all ranks' starts are told.

The estimator: of several exchanges with agent 0 the one with the shortest round trip counts, and the other clock read
at its middle (Cristian, Probabilistic clock synchronization, 1989); between estimates the offset moves along a line,
as in Hunold and Carpen-Amarie, arXiv:1505.07734. How wrong it may be is half that round trip, and how far the line
missed the next estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from launch.agents.group import Agents

ESTIMATOR = "min_rtt_line"
SHARED = "shared_clock"
ROUNDS = 32
MIN_SPAN_S = 1.0
"""Estimates nearer than this say nothing about drift."""


@dataclass(frozen=True)
class Offset:
    """What to add to this host's perf_counter to get agent 0's: at_s at the instant here_s, drifting."""

    here_s: float = 0.0
    at_s: float = 0.0
    drift: float = 0.0

    def at(self, here_s: float) -> float:
        return self.at_s + self.drift * (here_s - self.here_s)


@dataclass(frozen=True)
class Estimate:
    """One look at agent 0's clock: `offset_s` at `here_s`, wrong by `error_s` at most."""

    here_s: float
    offset_s: float
    error_s: float


@dataclass
class OffsetTracker:
    """One agent's knowledge of agent 0's clock, from all looks at it so far."""

    estimates: list[Estimate] = field(default_factory=list)

    def look(self, agents: Agents) -> None:
        """Takes one more estimate, on all agents together; does nothing where all see one clock."""
        zero = agents.members[0].clock
        for member in agents.members:
            if member.clock == zero:
                continue
            if agents.first:
                agents.pong(member, ROUNDS)
            elif member.index == agents.me.index:
                self.estimates.append(best(agents.ping(ROUNDS)))

    def offset(self) -> Offset:
        """The line through the first estimate and the last."""
        if not self.estimates:
            return Offset()
        first, last = self.estimates[0], self.estimates[-1]
        span = last.here_s - first.here_s
        drift = (last.offset_s - first.offset_s) / span if span >= MIN_SPAN_S else 0.0
        return Offset(last.here_s, last.offset_s, drift)

    def error_s(self, used: Offset) -> float:
        """How wrong `used` may have been, judged by the last estimate; 0 where clocks are shared."""
        if not self.estimates:
            return 0.0
        last = self.estimates[-1]
        return last.error_s + abs(used.at(last.here_s) - last.offset_s)


def best(answers: Sequence[tuple[float, float, float]]) -> Estimate:
    """The estimate from (sent, time there, received)."""
    sent, there, received = min(answers, key=lambda answer: answer[2] - answer[0])
    middle = (sent + received) / 2
    return Estimate(middle, there - middle, (received - sent) / 2)
