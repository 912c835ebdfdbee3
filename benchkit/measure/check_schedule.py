"""Where a case is checked among its kept samples: at places that no step can foresee.

A check takes samples as the kept ones are taken, on fresh inputs, and keeps no time. The odds that
it finds a step that is wrong in some of its samples only are in docs/reading.md.
"""

import math
import random
from dataclasses import dataclass, field

from benchkit.api.case import CHECK_SHARE
from benchkit.measure.sampler import CHECKED

MOST_CHECKS = 3
"""Checks of a case, each at a random place within its part of the samples."""
NUM_SAMPLES = CHECKED + 1
"""Samples that a check takes at most: its own, and one that is set aside after it."""
SHARE_OF_TIME = 0.05
"""What checks may take of the time of the samples so far; the first one is made all the same."""
ROUNDING = 1e-9


@dataclass
class CheckSchedule:
    """The places of a case's checks, as shares of all that it may be measured; alike on all ranks.

    Attributes:
        draw: draws the places.
        due: those that are left, in order; None before they are drawn.
        num_made: checks so far.
        spent_s: by them, on the slowest rank.
    """

    draw: random.Random
    due: list[float] | None = None
    num_made: int = 0
    spent_s: float = field(default=0.0)

    def samples_before(self, done: float, of_sample: float) -> float:
        """Return how many of the next samples stand before the next check; infinite without one.

        Args:
            done: share of the case that is measured.
            of_sample: share that one more sample is.
        """
        if self.due is None:
            affordable = CHECK_SHARE / (NUM_SAMPLES * of_sample)
            number = min(MOST_CHECKS, math.floor(affordable + ROUNDING))
            self.due = [(part + self.draw.random()) / number for part in range(number)]
        return max(1, math.ceil((self.due[0] - done) / of_sample)) if self.due else math.inf

    def advance(self, done: float, elapsed_s: float) -> bool:
        """Pass the places up to here; return whether to check now, after a block."""
        passed = [place for place in self.due or () if place <= done]
        self.due = (self.due or [])[len(passed) :]
        if not passed:
            return False
        next_s = self.spent_s / max(1, self.num_made)
        return not self.num_made or self.spent_s + next_s <= SHARE_OF_TIME * elapsed_s

    def record_check(self, seconds: float) -> None:
        self.num_made += 1
        self.spent_s += seconds
