"""Schedule checks of a case at random positions among its samples, which a step cannot predict.

A check takes samples as the timed ones are taken, on fresh inputs, without their times. The
probability that it detects a step that is wrong in only some samples is in docs/reading.md.
"""

import math
import random
from dataclasses import dataclass, field

from benchkit.api.case import CHECK_SHARE
from benchkit.measure.sampler import CHECKED

MOST_CHECKS = 3
"""Checks of a case at most, each at a random position within its part of the samples."""
NUM_SAMPLES = CHECKED + 1
"""Samples of a check at most: its own, and a discarded one after it."""
SHARE_OF_TIME = 0.05
"""Largest share of checks in the time of the samples so far; the first check is always made."""
ROUNDING = 1e-9


@dataclass
class CheckSchedule:
    """Positions of a case's checks, as shares of its limits; equal on all ranks.

    Attributes:
        draw: random generator of the positions.
        due: remaining positions, ascending; None before they are drawn.
        num_made: number of checks so far.
        spent_s: their time on the slowest rank.
    """

    draw: random.Random
    due: list[float] | None = None
    num_made: int = 0
    spent_s: float = field(default=0.0)

    def samples_before(self, progress: float, sample_share: float) -> float:
        """Return the number of samples before the next check; infinite without one.

        Args:
            progress: share of the case's limits that is used up.
            sample_share: share of one more sample.
        """
        if self.due is None:
            most_checks = CHECK_SHARE / (NUM_SAMPLES * sample_share)
            number = min(MOST_CHECKS, math.floor(most_checks + ROUNDING))
            self.due = [(part + self.draw.random()) / number for part in range(number)]
        return max(1, math.ceil((self.due[0] - progress) / sample_share)) if self.due else math.inf

    def advance(self, progress: float, elapsed_s: float) -> bool:
        """Advance to the progress after a block; return whether to check now."""
        passed = [position for position in self.due or () if position <= progress]
        self.due = (self.due or [])[len(passed) :]
        if not passed:
            return False
        next_s = self.spent_s / max(1, self.num_made)
        return not self.num_made or self.spent_s + next_s <= SHARE_OF_TIME * elapsed_s

    def record_check(self, seconds: float) -> None:
        self.num_made += 1
        self.spent_s += seconds
