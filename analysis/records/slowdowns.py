"""The column `slowdown`: one factor for the last rank, or a list with one factor per rank."""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True, order=True)
class Slowdown:
    """How many times slower each rank is; a harsher slowdown sorts later.

    Attributes:
        lost_speed: of all ranks together, in ranks at full speed.
        factors: one per rank, 1 at full speed.
    """

    lost_speed: float
    factors: tuple[float, ...]

    @staticmethod
    def of(cell: Any, world_size: int) -> "Slowdown":
        """Read a cell of the column `slowdown`: 2, "2" or "[1, 2, 4]"."""
        parsed = json.loads(str(cell))
        if isinstance(parsed, list):
            factors = [float(factor) for factor in parsed]
        else:
            factors = [1.0] * (world_size - 1) + [parsed]
        return Slowdown(sum(1 - 1 / factor for factor in factors), tuple(factors))

    @property
    def last_alone(self) -> bool:
        return set(self.factors[:-1]) <= {1.0}

    def __str__(self) -> str:
        """Return "4" where only the last rank is slowed, else the factor of each: "1, 2, 4"."""
        factors = self.factors[-1:] if self.last_alone else self.factors
        return ", ".join(f"{factor:g}" for factor in factors)


def slowdowns(rows: pd.DataFrame) -> list[Slowdown]:
    cells = zip(rows["slowdown"], rows["world_size"], strict=True)
    return [Slowdown.of(cell, int(size)) for cell, size in cells]
