"""The column `slowdown`: one factor for the last rank, or a list with one factor per rank.

It has what was asked. On a busy machine ranks are slowed otherwise, and then names tell both.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

FAR = 0.1
"""A measured factor that differs from the asked one by a larger share is told beside it."""


@dataclass(frozen=True, order=True)
class Slowdown:
    """How many times slower each rank is; a harsher slowdown sorts later.

    Attributes:
        lost_speed: of all ranks together, in ranks at full speed.
        factors: one per rank, 1 at full speed.
        measured: least and largest measured factor of each named rank; empty where all are near.
    """

    lost_speed: float
    factors: tuple[float, ...]
    measured: tuple[tuple[float, float], ...] = field(default=(), compare=False)

    @staticmethod
    def parse(cell: Any, world_size: int) -> "Slowdown":
        """Read a cell of the column `slowdown`: 2, "2" or "[1, 2, 4]"."""
        parsed = json.loads(str(cell))
        if isinstance(parsed, list):
            factors = [float(factor) for factor in parsed]
        else:
            factors = [1.0] * (world_size - 1) + [parsed]
        return Slowdown(sum(1 - 1 / factor for factor in factors), tuple(factors))

    @property
    def is_last_rank_only(self) -> bool:
        return set(self.factors[:-1]) <= {1.0}

    @property
    def named(self) -> slice:
        """The ranks whose factors make the name."""
        return slice(-1 if self.is_last_rank_only else 0, None)

    def __str__(self) -> str:
        """Return "4" where only the last rank is slowed, else the factor of each: "1, 2, 4".

        Where it was another in truth: "4 (measured 2.1 to 2.3)".
        """
        asked = ", ".join(f"{factor:g}" for factor in self.factors[self.named])
        measured = ", ".join(format_factor_range(*ends) for ends in self.measured)
        return f"{asked} (measured {measured})" if measured else asked

    def with_measured(self, points: Sequence[Sequence[float]]) -> "Slowdown":
        """Add what was measured in some points: [point][rank]."""
        by_rank = list(zip(self.factors, *points, strict=True))[self.named]
        far = [each for asked, *each in by_rank if any(abs(m / asked - 1) > FAR for m in each)]
        ends = tuple((min(each), max(each)) for _, *each in by_rank) if far else ()
        return replace(self, measured=ends)


def slowdowns(rows: pd.DataFrame) -> list[Slowdown]:
    """Read the slowdowns of rows that stand together, so that equal ones have one name."""
    cells = zip(rows["slowdown"], rows["world_size"], strict=True)
    asked = [Slowdown.parse(cell, int(size)) for cell, size in cells]
    measured: dict[Slowdown, list[list[float]]] = {each: [] for each in asked}
    for each, text in zip(asked, rows["measured_slowdown"], strict=True):
        factors = [float(factor) for factor in text.split()] if isinstance(text, str) else []
        if len(factors) == len(each.factors):
            measured[each].append(factors)
    told = {each: each.with_measured(of_points) for each, of_points in measured.items()}
    return [told[each] for each in asked]


def format_factor_range(low: float, high: float) -> str:
    """Format the ends of a range to two digits: "1.1", "1.1 to 1.2"."""
    return " to ".join(dict.fromkeys(f"{float(f'{end:.2g}'):g}" for end in (low, high)))
