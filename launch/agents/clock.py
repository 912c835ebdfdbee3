"""Clock offsets: each agent estimates the offset of its clock from agent 0's."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from launch.agents.group import Agents

ESTIMATOR = "min_rtt_line"
SHARED = "shared_clock"
ROUNDS = 32


@dataclass(frozen=True)
class Offset:
    """Offset from this host's perf_counter to agent 0's: a line through (here_s, at_s).

    `drift` is the slope of the line, in seconds per second.
    """

    here_s: float = 0.0
    at_s: float = 0.0
    drift: float = 0.0

    def at(self, here_s: float) -> float:
        return self.at_s + self.drift * (here_s - self.here_s)


@dataclass(frozen=True)
class OffsetEstimate:
    """One measurement of the offset to agent 0's clock, at `here_s` by this host's perf_counter.

    `error_s` bounds the error of `offset_s`.
    """

    here_s: float
    offset_s: float
    error_s: float


@dataclass
class OffsetTracker:
    estimates: list[OffsetEstimate] = field(default_factory=list)

    def add_estimate(self, agents: Agents) -> None:
        """Add one estimate; all agents call this together. Nothing is added for a shared clock."""
        zero = agents.members[0].clock
        for member in agents.members:
            if member.clock == zero:
                continue
            if agents.first:
                agents.pong(member, ROUNDS)
            elif member.index == agents.me.index:
                self.estimates.append(shortest_round_trip(agents.ping(ROUNDS)))

    def offset(self) -> Offset:
        if not self.estimates:
            return Offset()
        first, last = self.estimates[0], self.estimates[-1]
        moved = last.offset_s - first.offset_s
        # A change within the error bounds would extrapolate to an unbounded drift.
        has_drifted = abs(moved) > first.error_s + last.error_s
        drift = moved / (last.here_s - first.here_s) if has_drifted else 0.0
        return Offset(last.here_s, last.offset_s, drift)

    def error_s(self, used: Offset) -> float:
        """Return the error bound of `used` by the last estimate; 0 for a shared clock."""
        if not self.estimates:
            return 0.0
        last = self.estimates[-1]
        return last.error_s + abs(used.at(last.here_s) - last.offset_s)


def shortest_round_trip(answers: Sequence[tuple[float, float, float]]) -> OffsetEstimate:
    """Return the estimate from the sample of `Agents.ping` with the shortest round trip."""
    sent, remote, received = min(answers, key=lambda answer: answer[2] - answer[0])
    middle = (sent + received) / 2
    return OffsetEstimate(middle, remote - middle, (received - sent) / 2)
