"""The column `slowdown`: one factor for the last rank, or a list with one factor per rank.

It has the requested factors. Where those measured deviate, as on a busy machine, names have both.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

FAR = 0.1
"""A measured factor that deviates from the requested one by a larger share is printed, too."""


@dataclass(frozen=True, order=True)
class Slowdown:
    """How many times slower each rank is; a harsher slowdown sorts later.

    Attributes:
        lost_speed: of all ranks together, in ranks at full speed.
        factors: one per rank, 1 at full speed.
        measured: least and largest measured factor of each named rank; empty where none deviates.
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
    def name_slice(self) -> slice:
        """The ranks whose factors are in the name."""
        return slice(-1 if self.is_last_rank_only else 0, None)

    def __str__(self) -> str:
        """Return "4" where only the last rank is slowed, else the factor of each: "1, 2, 4".

        Where measured factors deviate: "4 (measured 2.1 to 2.3)".
        """
        requested = ", ".join(f"{factor:g}" for factor in self.factors[self.name_slice])
        measured = ", ".join(format_factor_range(*bounds) for bounds in self.measured)
        return f"{requested} (measured {measured})" if measured else requested

    def add_measured(self, points: Sequence[Sequence[float]]) -> "Slowdown":
        """Add the measured factors of some points: [point][rank]."""
        by_rank = list(zip(self.factors, *points, strict=True))[self.name_slice]
        deviates = any(
            abs(factor / requested - 1) > FAR
            for requested, *measured in by_rank
            for factor in measured
        )
        bounds = (
            tuple((min(measured), max(measured)) for _, *measured in by_rank) if deviates else ()
        )
        return replace(self, measured=bounds)


def slowdowns(rows: pd.DataFrame) -> list[Slowdown]:
    """Read the slowdowns of the rows of one table, so that equal ones have one name."""
    cells = zip(rows["slowdown"], rows["world_size"], strict=True)
    requested = [Slowdown.parse(cell, int(size)) for cell, size in cells]
    measured: dict[Slowdown, list[list[float]]] = {slowdown: [] for slowdown in requested}
    for slowdown, text in zip(requested, rows["measured_slowdown"], strict=True):
        factors = [float(factor) for factor in text.split()] if isinstance(text, str) else []
        if len(factors) == len(slowdown.factors):
            measured[slowdown].append(factors)
    named = {slowdown: slowdown.add_measured(points) for slowdown, points in measured.items()}
    return [named[slowdown] for slowdown in requested]


def format_factor_range(low: float, high: float) -> str:
    """Format the bounds of a range to two digits: "1.1", "1.1 to 1.2"."""
    return " to ".join(dict.fromkeys(f"{float(f'{bound:.2g}'):g}" for bound in (low, high)))
