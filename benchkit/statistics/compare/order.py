"""Orders the runs of a comparison so that neither arm profits from when it runs."""

from dataclasses import dataclass
from random import Random

CONTROL_EVERY = 5
"""Every fifth round is an A/A pair."""


@dataclass(frozen=True)
class Round:
    """One run of each arm, one after the other, of all points.

    Attributes:
        roles: the arms in the order in which they run; 0 is the baseline.
        seed: of all runs of the round, so that arms differ in nothing else.
        is_control: an A/A pair: both roles, 0 and 1, are played by the baseline.
    """

    roles: tuple[int, ...]
    seed: int
    is_control: bool = False


def order_of_runs(num_pairs: int, seed: int, num_arms: int = 2) -> list[Round]:
    """Returns the rounds of a comparison; a longer one begins with the same rounds.

    Two rounds make a block: a random order of the arms, then its reverse. So two arms run ABBA or
    BAAB by the flip of a coin, and in each block all arms run at the same time on average: a drift
    that is linear within a block favours none (Cox, Some systematic experimental designs,
    Biometrika 38, 1951). A/A pairs alternate in the same way.

    Args:
        num_pairs: rounds without A/A pairs.
        seed: decides all that is random.
        num_arms: 2 or more.
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
