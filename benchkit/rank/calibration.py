"""How slow each rank really is: calls on all ranks, with and without throttles."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from benchkit.api.case import noop
from benchkit.api.regions import QUEUEING
from benchkit.measure.clocks import Clock
from benchkit.measure.sampler import lead_for, most_hidden
from benchkit.rank.throttle import CLOSE_ENOUGH, ThrottleController, relative_error
from benchkit.record.record import SlowdownReport
from launch.slowdown.cgroup import MECHANISMS

TURNS = 5  # pairs of turns, free and throttled, for one reading of a factor
PROBE_TURNS = 7
SLOWED_TURN = 0.1
"""Shortest turn at full speed if a rank is slowed, as a share of `measure.probe_seconds`."""
UNSLOWED_TURN = 0.02  # the same if no rank is slowed
LONGEST_TURN = 1.5  # longest turn that a throttle has stretched, as such a share
LONGEST_PROBE = 30.0  # longest time of all turns, as such a multiple

SHORTEST_CALL_S = 1e-7
"""The events of a GPU may say 0 for a call that enqueues nothing."""


class Peers(Protocol):
    def barrier(self) -> None: ...

    def exchange(self, values: list[float]) -> list[list[float]]: ...


@dataclass(frozen=True)
class Turn:
    """Calls that are timed together; `seconds` is their time at full speed."""

    call: Callable[[], object]
    count: int = 1
    seconds: float = 0.0
    lead_s: float = 0.0


@dataclass(frozen=True)
class Prober:
    """Time calls on all ranks together, for calibration and cost models but not for results.

    Attributes:
        worst: the largest factor of all ranks.
        budget_s: `measure.probe_seconds`.
        on_use: called before calls are timed.
    """

    rank: int
    controller: ThrottleController
    worst: float
    clock: Clock
    peers: Peers
    budget_s: float
    on_use: Callable[[], None] = noop

    def seconds_of(
        self,
        *calls: Callable[[], object],
        turn: float = UNSLOWED_TURN,
        turns: int = PROBE_TURNS,
    ) -> list[list[float]]:
        """Time calls with the throttles applied; return median seconds per call, [call][rank].

        The calls take turns, as cases do.

        Args:
            turn: shortest turn if no rank is slowed, as a share of the budget. A model that
                predicts minutes needs longer turns, and more of them.
            turns: turns per call; fewer if they would exceed LONGEST_PROBE budgets.
        """
        self.on_use()
        planned = [self.plan(call, turn) for call in calls]
        round_s = self.worst * sum(each.seconds for each in planned)
        num_turns = max(1, min(turns, int(LONGEST_PROBE * self.budget_s / round_s)))
        self.controller.apply()
        rounds = [[self.take(each) for each in planned] for _ in range(num_turns)]
        self.controller.release()
        medians = self.peers.exchange([float(median) for median in np.median(rounds, axis=0)])
        return [list(column) for column in zip(*medians, strict=True)]

    def slowdown_of(self, call: Callable[[], object]) -> list[float]:
        """Return the median ratio of throttled to free time of neighbouring turns: [rank]."""
        self.on_use()
        planned = self.plan(call)
        ratios = []
        for _ in range(TURNS):
            free_s = self.take(planned)
            self.controller.apply()
            ratios.append(self.take(planned) / free_s)
            self.controller.release()
        return [row[0] for row in self.peers.exchange([float(np.median(ratios))])]

    def plan(self, call: Callable[[], object], turn: float = UNSLOWED_TURN) -> Turn:
        """Find how many calls make a turn, and the lead that hides their launches.

        It is the same on all ranks, because the call may be a collective.
        """
        once_s, queueing_s = self.once(call)
        if once_s < LONGEST_TURN * self.budget_s:  # then the first was a warm-up
            again_s, queueing_s = self.once(call)
            once_s = min(once_s, again_s)
        if self.worst > 1:
            turn = min(SLOWED_TURN, LONGEST_TURN / self.worst)
        count = max(1, math.ceil(turn * self.budget_s / once_s))
        if not queueing_s:
            return Turn(call, count, count * once_s)
        count = min(count, most_hidden(queueing_s)) or count
        return Turn(call, count, count * once_s, lead_for(count * queueing_s))

    def once(self, call: Callable[[], object]) -> tuple[float, float]:
        """Return seconds of one call and of queueing it on a GPU, on the slowest rank."""
        self.clock.forget_regions()
        mine = [self.take(Turn(call)), self.clock.take_regions().get(QUEUEING, 0.0)]
        slowest, queueing = map(max, zip(*self.peers.exchange(mine), strict=True))
        return slowest, queueing

    def take(self, turn: Turn) -> float:
        """Return the seconds per call of a turn that all ranks begin together."""
        self.peers.barrier()
        _, duration_s = self.clock.time(turn.call, turn.count, turn.lead_s)
        return max(SHORTEST_CALL_S, duration_s / turn.count)


TRIES = 3  # settings of the throttles that a calibration tries at most
WARN_BEYOND = 0.15
"""Error of a factor, as a share of the one asked for, above which the record warns."""
SIZES = {"cpu": 256, "cuda": 4096}  # rows and columns of the matrix, by device


def warnings(slowdown: SlowdownReport) -> list[str]:
    pairs = zip(slowdown.asked, slowdown.measured or slowdown.asked, strict=True)
    return [
        f"rank {rank} is slowed {measured:.3g} times by {slowdown.mechanism}, asked {asked:g}"
        for rank, (asked, measured) in enumerate(pairs)
        if relative_error(measured, asked) > WARN_BEYOND
    ]


def calibrate(prober: Prober, asked: Sequence[float], device: torch.device) -> SlowdownReport:
    """Adjust the throttles until each rank has the factor asked for, as far as possible.

    All ranks call this together. Each rank keeps the setting that came nearest, and the slowdown
    holds the reading of that setting.
    """
    matrix = torch.randn(SIZES[device.type], SIZES[device.type], device=device)

    def multiply() -> torch.Tensor:
        return torch.mm(matrix, matrix)

    mechanism = mechanisms_in_use(prober)
    if "mps" in mechanism:
        return SlowdownReport(
            asked=list(asked),
            mechanism=mechanism,
            measured=compare_shares(prober, asked, multiply),
            multiprocessors=multiprocessors(prober, device),
        )
    settings = []
    readings: list[list[float]] = []
    for _ in range(TRIES):
        settings.append(prober.controller.setting)
        measured = prober.slowdown_of(multiply)
        readings.append(measured)
        # All ranks have all readings, so they leave the loop together.
        if all(relative_error(*pair) <= CLOSE_ENOUGH for pair in zip(measured, asked, strict=True)):
            break
        prober.controller.correct(measured[prober.rank])
    nearest = nearest_attempts(readings, asked)
    prober.controller.setting = settings[nearest[prober.rank]]
    kept = [readings[attempt][rank] for rank, attempt in enumerate(nearest)]
    return SlowdownReport(asked=list(asked), mechanism=mechanism, measured=kept)


def mechanisms_in_use(prober: Prober) -> str:
    own = MECHANISMS.index(prober.controller.throttle.mechanism)
    kinds = [int(row[0]) for row in prober.peers.exchange([float(own)])]
    return "+".join(dict.fromkeys(MECHANISMS[kind] for kind in kinds if kind))


def compare_shares(
    prober: Prober, asked: Sequence[float], call: Callable[[], object]
) -> list[float]:
    """Measure the factors of ranks that run on shares of GPUs, which cannot be released.

    The least slowed rank is assumed to have the factor asked for.
    """
    [times] = prober.seconds_of(call)
    least = asked.index(min(asked))
    return [time / times[least] * asked[least] for time in times]


def multiprocessors(prober: Prober, device: torch.device) -> list[int]:
    """Return the multiprocessors of each rank's GPU; under MPS those of its share."""
    own = torch.cuda.get_device_properties(device).multi_processor_count
    return [int(row[0]) for row in prober.peers.exchange([float(own)])]


def nearest_attempts(readings: list[list[float]], asked: Sequence[float]) -> list[int]:
    """Return each rank's nearest attempt: [attempt][rank] -> [rank]."""
    nearest = []
    for rank, factor in enumerate(asked):
        misses = [relative_error(reading[rank], factor) for reading in readings]
        nearest.append(misses.index(min(misses)))
    return nearest
