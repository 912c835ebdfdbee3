"""Time calls before the measurement, for calibration and cost models.

Imports neither torch nor numpy: the forecast of a sweep reads its constants.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchkit.api.regions import QUEUEING
from benchkit.measure.clocks import Clock
from benchkit.measure.sampler import delay_for, most_calls_hidden
from benchkit.rank.throttle import ThrottleController

if TYPE_CHECKING:
    from benchkit.rank.backends import ControlGroup

TURNS = 5  # pairs of batches, free and throttled, for one reading of a factor
TRIES = 3  # settings of a throttle, each with such a reading, at most
PROBE_TURNS = 7
SLOWED_TURN = 0.1
"""Shortest batch at full speed if a rank is slowed, as a share of `measure.probe_seconds`."""
UNSLOWED_TURN = 0.02  # the same if no rank is slowed
LONGEST_TURN = 1.5  # longest throttled batch, as such a share
LONGEST_PROBE = 30.0  # longest time of all batches, as such a multiple

SHORTEST_CALL_S = 1e-7
"""Shortest time of a call: GPU events may give 0 for a call that enqueues nothing."""


@dataclass(frozen=True)
class ProbedCalls:
    """A batch of calls timed together; `seconds` is the time of the batch at full speed."""

    call: Callable[[], object]
    count: int = 1
    seconds: float = 0.0
    delay_s: float = 0.0


@dataclass
class Prober:
    """Time calls on all ranks together, for calibration and cost models but not for results.

    Attributes:
        worst: largest slowdown factor of all ranks.
        budget_s: `measure.probe_seconds`.
        is_used: whether calls have been timed.
    """

    rank: int
    controller: ThrottleController
    worst: float
    clock: Clock
    peers: "ControlGroup"
    budget_s: float
    is_used: bool = False

    def seconds_of(
        self,
        *calls: Callable[[], object],
        turn: float = UNSLOWED_TURN,
        turns: int = PROBE_TURNS,
    ) -> list[list[float]]:
        """Time calls with the throttles applied; return median seconds per call, [call][rank].

        The calls are interleaved, as cases are.

        Args:
            turn: shortest batch if no rank is slowed, as a share of the budget. A model that
                predicts minutes needs longer batches, and more of them.
            turns: batches per call; fewer if they would exceed LONGEST_PROBE budgets.
        """
        self.is_used = True
        batches = [self.plan(call, turn) for call in calls]
        round_s = self.worst * sum(batch.seconds for batch in batches)
        num_turns = max(1, min(turns, int(LONGEST_PROBE * self.budget_s / round_s)))
        self.controller.apply()
        rounds = [[self.time_turn(batch) for batch in batches] for _ in range(num_turns)]
        self.controller.release()
        medians = self.peers.all_gather(list(map(median, zip(*rounds, strict=True))))
        return [list(column) for column in zip(*medians, strict=True)]

    def slowdown_of(self, call: Callable[[], object]) -> list[float]:
        """Return the median ratio of throttled to free time of neighbouring batches: [rank]."""
        self.is_used = True
        batch = self.plan(call)
        ratios = []
        for _ in range(TURNS):
            free_s = self.time_turn(batch)
            self.controller.apply()
            ratios.append(self.time_turn(batch) / free_s)
            self.controller.release()
        return [row[0] for row in self.peers.all_gather([median(ratios)])]

    def plan(self, call: Callable[[], object], turn: float = UNSLOWED_TURN) -> ProbedCalls:
        """Choose the calls of a batch, and the delay that hides their launches.

        The result is equal on all ranks, because the call may be a collective.
        """
        once_s, queueing_s = self.time_once(call)
        if once_s < LONGEST_TURN * self.budget_s:  # then the first was a warm-up
            again_s, queueing_s = self.time_once(call)
            once_s = min(once_s, again_s)
        if self.worst > 1:
            turn = min(SLOWED_TURN, LONGEST_TURN / self.worst)
        count = max(1, math.ceil(turn * self.budget_s / once_s))
        if not queueing_s:
            return ProbedCalls(call, count, count * once_s)
        count = min(count, most_calls_hidden(queueing_s)) or count
        return ProbedCalls(call, count, count * once_s, delay_for(count * queueing_s))

    def time_once(self, call: Callable[[], object]) -> tuple[float, float]:
        """Return the seconds of one call and of queueing it on a GPU, each on the slowest rank."""
        self.clock.forget_regions()
        own_times = [
            self.time_turn(ProbedCalls(call)),
            self.clock.take_regions().get(QUEUEING, 0.0),
        ]
        slowest, queueing = map(max, zip(*self.peers.all_gather(own_times), strict=True))
        return slowest, queueing

    def time_turn(self, turn: ProbedCalls) -> float:
        """Return the seconds per call of a batch that all ranks begin together."""
        self.peers.barrier()
        _, duration_s = self.clock.time(turn.call, turn.count, turn.delay_s)
        return max(SHORTEST_CALL_S, duration_s / turn.count)
