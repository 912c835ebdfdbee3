"""Plans after how many pairs a comparison is looked at, and keeps the error rate over all looks.

A comparison that stops as soon as it finds a difference finds one too often: five looks at 0.05
each are wrong in 14 % of cases. With equally spaced looks that are declared before, each of them
at the level of Pocock (Biometrika 64, 1977; table 2.1 of Jennison and Turnbull, Group Sequential
Methods with Applications to Clinical Trials), all together are wrong in 5 %. The level is the same
at each look, so its intervals are repeated confidence intervals (Jennison and Turnbull, 1989): they
hold at all looks together, whatever the reason to stop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchkit.statistics.compare.verdicts import UNCLEAR

LEVELS = (0.05, 0.0294, 0.0221, 0.0182, 0.0158)
"""Level of each look for 1, 2, ... looks, for an error rate of 0.05, two-sided."""
PAIRS_PER_LOOK = 10
"""Fewest pairs from one look to the next."""


@dataclass(frozen=True)
class Plan:
    """When to look, and how strictly.

    Attributes:
        looks: numbers of pairs after which verdicts are taken, ascending.
        level: error rate of each look, the `level` of `judge`.
    """

    looks: tuple[int, ...]
    level: float

    def goes_on(self, num_pairs: int, words: Sequence[str]) -> bool:
        """Returns whether more pairs are wanted.

        Args:
            num_pairs: pairs so far.
            words: verdicts at this number of pairs; they count at a look only.
        """
        is_answered = num_pairs in self.looks and UNCLEAR not in words
        return num_pairs < self.looks[-1] and not is_answered


def fixed_plan(num_pairs: int) -> Plan:
    """Returns the plan of a comparison of so many pairs, with one look at its end."""
    return Plan((num_pairs,), LEVELS[0])


def auto_plan(max_pairs: int) -> Plan:
    """Returns a plan of up to 5 equally spaced looks, at least 10 pairs apart, up to a limit."""
    count = min(len(LEVELS), max(1, max_pairs // PAIRS_PER_LOOK))
    looks = tuple(round(max_pairs * look / count) for look in range(1, count + 1))
    return Plan(looks, LEVELS[count - 1])
