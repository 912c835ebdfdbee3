"""Estimates the offset of a host's monotonic clock from agent 0's, which times all ranks' starts.

Of several exchanges with agent 0 the one with the shortest round trip counts, and agent 0's clock
is taken as read at its middle (Cristian, Probabilistic clock synchronization, 1989). Between
estimates the offset moves along a line, as in Hunold and Carpen-Amarie, arXiv:1505.07734. The
error is at most half that round trip plus the distance by which the line missed the next estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from launch.agents.group import Agents

ESTIMATOR = "min_rtt_line"
SHARED = "shared_clock"
ROUNDS = 32
MIN_SPAN_S = 1.0
"""Estimates that are closer in time than this say nothing about drift."""


@dataclass(frozen=True)
class Offset:
    """What to add to this host's perf_counter to get agent 0's, as a line over time.

    Attributes:
        here_s: perf_counter of this host at which `at_s` applies, in seconds.
        at_s: offset at that instant, in seconds.
        drift: change of the offset per second.
    """

    here_s: float = 0.0
    at_s: float = 0.0
    drift: float = 0.0

    def at(self, here_s: float) -> float:
        """Returns the offset in seconds at the instant `here_s` of this host's clock."""
        return self.at_s + self.drift * (here_s - self.here_s)


@dataclass(frozen=True)
class Estimate:
    """One measurement of the offset to agent 0's clock.

    Attributes:
        here_s: perf_counter of this host at the measurement, in seconds.
        offset_s: what to add to it to get agent 0's, in seconds.
        error_s: largest possible error of the offset, in seconds.
    """

    here_s: float
    offset_s: float
    error_s: float


@dataclass
class OffsetTracker:
    """One agent's estimates of the offset to agent 0's clock, oldest first."""

    estimates: list[Estimate] = field(default_factory=list)

    def look(self, agents: Agents) -> None:
        """Adds one estimate, together with all agents; does nothing if all share one clock."""
        zero = agents.members[0].clock
        for member in agents.members:
            if member.clock == zero:
                continue
            if agents.first:
                agents.pong(member, ROUNDS)
            elif member.index == agents.me.index:
                self.estimates.append(best(agents.ping(ROUNDS)))

    def offset(self) -> Offset:
        """Returns the line through the first estimate and the last."""
        if not self.estimates:
            return Offset()
        first, last = self.estimates[0], self.estimates[-1]
        span = last.here_s - first.here_s
        drift = (last.offset_s - first.offset_s) / span if span >= MIN_SPAN_S else 0.0
        return Offset(last.here_s, last.offset_s, drift)

    def error_s(self, used: Offset) -> float:
        """Returns how wrong `used` may have been by the last estimate; 0 if clocks are shared."""
        if not self.estimates:
            return 0.0
        last = self.estimates[-1]
        return last.error_s + abs(used.at(last.here_s) - last.offset_s)


def best(answers: Sequence[tuple[float, float, float]]) -> Estimate:
    """Returns the estimate of the exchange with the shortest round trip.

    Args:
        answers: per exchange the time sent, agent 0's time and the time received, in seconds.
    """
    sent, remote, received = min(answers, key=lambda answer: answer[2] - answer[0])
    middle = (sent + received) / 2
    return Estimate(middle, remote - middle, (received - sent) / 2)
