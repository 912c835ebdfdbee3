"""How slow each rank really is: a matrix product timed with and without its throttle, on all ranks at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch

from benchkit.measure.clocks import Clock
from launch.slowdown.throttle import MECHANISMS, Throttle

TRIES, TURNS, PROBE_TURNS = 3, 5, 7
CLOSE_ENOUGH, WARN_BEYOND = 0.05, 0.15
"""Off by less than the first, a throttle is left as it is; by more than the second, the row carries a warning."""
SLOWED_TURN, UNSLOWED_TURN = 0.1, 0.02
"""Least length of a turn at full speed where a rank is slowed, and where none is: shares of `measure.probe_seconds`."""
LONGEST_TURN, LONGEST_PROBE = 1.5, 30.0
"""Upper limits, as shares of the same: of a turn that a throttle has stretched, and of all turns together."""
SIZES = {"cpu": 256, "cuda": 4096}


class Peers(Protocol):
    """What is needed of the ranks' control channel."""

    def barrier(self) -> None: ...

    def exchange(self, values: list[float]) -> list[list[float]]: ...


@dataclass
class ThrottleController:
    """One rank's throttle, the factor asked for, and the setting found to give it."""

    throttle: Throttle
    factor: float
    setting: float

    def apply(self) -> None:
        if self.factor > 1:
            self.throttle.apply(self.setting)

    def release(self) -> None:
        if self.factor > 1:
            self.throttle.release()

    def set_for(self, unslowed: bool) -> None:
        """Releases the throttle for a case that runs at full speed, else applies it."""
        if unslowed:
            self.release()
        else:
            self.apply()

    def correct(self, measured: float) -> None:
        """Corrects the setting in proportion to what was missed, by a factor of two at most: it may be noise."""
        if self.factor > 1 and miss(measured, self.factor) > CLOSE_ENOUGH:
            missing = (self.factor - 1) / (measured - 1) if measured > 1 else math.inf
            self.setting = 1 + (self.setting - 1) * min(2.0, max(0.5, missing))


@dataclass(frozen=True)
class Slowdown:
    """Asked and measured factor of each rank; nothing is measured where there is nothing to measure against."""

    mechanism: str
    asked: list[float]
    measured: list[float] | None

    def warnings(self) -> list[str]:
        """One line per rank whose factor is not what was asked."""
        return [
            f"rank {rank} is slowed {measured:.3g} times by {self.mechanism}, asked {asked:g}"
            for rank, (asked, measured) in enumerate(zip(self.asked, self.measured or self.asked, strict=True))
            if miss(measured, asked) > WARN_BEYOND
        ]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Prober:
    """Times calls on all ranks together, slowed or not; for calibration and cost models, not for results."""

    rank: int
    controller: ThrottleController
    worst: float  # the largest factor of all ranks
    clock: Clock
    peers: Peers
    budget_s: float  # measure.probe_seconds

    def seconds_of(
        self, *calls: Callable[[], object], turn: float = UNSLOWED_TURN, turns: int = PROBE_TURNS
    ) -> list[list[float]]:
        """Median seconds per call, as [call][rank], with the throttles applied; the calls take turns, as cases do.

        Args:
            calls: what to time; all ranks make the same calls together.
            turn: least length of a turn where no rank is slowed, as a share of the budget. A model that predicts
                minutes needs longer turns, and more of them.
            turns: turns per call; fewer where they would exceed LONGEST_PROBE budgets.
        """
        counts, turns_s = zip(*[self.count(call, turn) for call in calls], strict=True)
        num_turns = max(1, min(turns, int(LONGEST_PROBE * self.budget_s / (self.worst * sum(turns_s)))))
        self.controller.apply()
        rounds = [[self.turn(*each) for each in zip(calls, counts, strict=True)] for _ in range(num_turns)]
        self.controller.release()
        medians = self.peers.exchange([float(median) for median in np.median(rounds, axis=0)])
        return [list(column) for column in zip(*medians, strict=True)]

    def slowdown_of(self, call: Callable[[], object]) -> list[float]:
        """Per rank the median ratio of throttled to free time, of neighbouring turns."""
        (count, _), ratios = self.count(call), []
        for _ in range(TURNS):
            free_s = self.turn(call, count)
            self.controller.apply()
            ratios.append(self.turn(call, count) / free_s)
            self.controller.release()
        return [row[0] for row in self.peers.exchange([float(np.median(ratios))])]

    def count(self, call: Callable[[], object], turn: float = UNSLOWED_TURN) -> tuple[int, float]:
        """Calls in a turn, and its length at full speed (s): the same on all ranks, for a call may be a collective."""
        once_s = self.slowest(self.turn(call, 1))
        if once_s < LONGEST_TURN * self.budget_s:  # the first is a warm-up, where that is worth its time
            once_s = min(once_s, self.slowest(self.turn(call, 1)))
        if self.worst > 1:
            turn = min(SLOWED_TURN, LONGEST_TURN / self.worst)
        count = max(1, math.ceil(turn * self.budget_s / once_s))
        return count, count * once_s

    def slowest(self, seconds: float) -> float:
        """The most of all ranks."""
        return max(row[0] for row in self.peers.exchange([seconds]))

    def turn(self, call: Callable[[], object], count: int) -> float:
        self.peers.barrier()
        _, duration_s = self.clock.time(call, count)
        return duration_s / count


def miss(measured: float, asked: float) -> float:
    """How far a factor is from the one asked for, as a share of it."""
    return abs(measured / asked - 1)


def calibrate(prober: Prober, asked: Sequence[float], device: torch.device) -> Slowdown:
    """Adjusts the throttles until each rank's factor is the one asked for, as far as it can be; all ranks together.

    Each rank keeps the setting that came nearest, and reports its reading with that.
    """
    matrix = torch.ones(SIZES[device.type], SIZES[device.type], device=device)
    call = lambda: torch.mm(matrix, matrix)  # noqa: E731
    throttle, peers = prober.controller.throttle, prober.peers
    kinds = [int(row[0]) for row in peers.exchange([float(MECHANISMS.index(throttle.mechanism))])]
    mechanism = "+".join(dict.fromkeys(MECHANISMS[kind] for kind in kinds if kind))
    if "mps" in mechanism:  # nothing can be let go of here, so the rank slowed least is taken at its word
        if len(set(asked)) == 1:
            return Slowdown(mechanism, list(asked), None)
        [times] = prober.seconds_of(call)
        least = asked.index(min(asked))
        return Slowdown(mechanism, list(asked), [time / times[least] * asked[least] for time in times])
    settings, readings = [], []
    for _ in range(TRIES):
        settings.append(prober.controller.setting)
        readings.append(prober.slowdown_of(call))
        if all(miss(*each) <= CLOSE_ENOUGH for each in zip(readings[-1], asked, strict=True)):
            break  # on all ranks at once, for all know all readings
        prober.controller.correct(readings[-1][prober.rank])
    nearest = [
        min(range(len(readings)), key=lambda attempt: miss(readings[attempt][rank], wanted))
        for rank, wanted in enumerate(asked)
    ]
    prober.controller.setting = settings[nearest[prober.rank]]
    return Slowdown(mechanism, list(asked), [readings[attempt][rank] for rank, attempt in enumerate(nearest)])
