"""The design of a paired comparison: the order of its runs, and the looks."""

from dataclasses import dataclass
from random import Random
from typing import Annotated

from msgspec import Meta

CONTROL_EVERY = 5  # every fifth round is an A/A pair


@dataclass(frozen=True)
class Round:
    """One run of each arm of all points.

    Attributes:
        roles: numbers of the arms in the order of their runs; 0 is the baseline.
        seed: seed of all runs of the round, so that arms differ in nothing else.
        is_control: an A/A pair, in which the baseline plays both roles.
    """

    roles: tuple[Annotated[int, Meta(ge=0, le=10**6)], ...]
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    is_control: bool = False


def order_of_runs(num_pairs: int, seed: int, num_arms: int = 2) -> list[Round]:
    """Return the rounds of a comparison; a longer one begins with the same rounds.

    Two rounds make a block: a random order of the arms, then its reverse. So two arms run ABBA or
    BAAB at random, and all arms of a block run at the same mean time: a drift that is linear within
    a block favours none (Cox, Some systematic experimental designs, Biometrika 38, 1951). A/A pairs
    alternate in the same way.
    """
    random, rounds = Random(seed), list[Round]()
    roles, control = list(range(num_arms)), random.sample(range(2), 2)
    for pair in range(num_pairs):
        roles = roles[::-1] if pair % 2 else random.sample(range(num_arms), num_arms)
        rounds.append(Round(tuple(roles), random.getrandbits(31)))
        if (len(rounds) + 1) % CONTROL_EVERY == 0:
            rounds.append(Round(tuple(control), random.getrandbits(31), is_control=True))
            control.reverse()
    return rounds


ALPHAS = (0.05, 0.0294, 0.0221, 0.0182, 0.0158)
"""Error rate of each look for 1, 2, ... looks, of 0.05 in all, two-sided."""
PAIRS_PER_LOOK = 10  # fewest pairs from one look to the next


@dataclass(frozen=True)
class LookPlan:
    """The looks of a sequential design, and their error rate.

    Attributes:
        looks: numbers of pairs at which verdicts are computed, ascending.
        alpha: error rate of each look.
    """

    looks: tuple[int, ...]
    alpha: float

    def goes_on(self, num_pairs: int, is_answered: bool) -> bool:
        """Return whether to run more pairs; an answer stops the comparison only at a look."""
        return num_pairs < self.looks[-1] and not (is_answered and num_pairs in self.looks)


def fixed_plan(num_pairs: int) -> LookPlan:
    return LookPlan((num_pairs,), ALPHAS[0])


def auto_plan(max_pairs: int) -> LookPlan:
    """Return a plan of up to 5 equally spaced looks, at least 10 pairs apart."""
    count = min(len(ALPHAS), max(1, max_pairs // PAIRS_PER_LOOK))
    looks = tuple(round(max_pairs * look / count) for look in range(1, count + 1))
    return LookPlan(looks, ALPHAS[count - 1])
