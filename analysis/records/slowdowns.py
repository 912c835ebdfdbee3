"""How ranks were slowed down, as the table tells it: one factor for the last rank, or a list with one per rank."""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True, order=True)
class Slowdown:
    """How many times slower each rank is.

    Attributes:
        lost_speed: of all ranks together, in ranks at full speed; in order of this, and of the factors where it is
            the same, a harsher slowdown comes later.
        factors: one per rank, 1 at full speed.
    """

    lost_speed: float
    factors: tuple[float, ...]

    @staticmethod
    def of(cell: Any, world_size: int) -> "Slowdown":
        """Reads a cell of the column `slowdown`: 2, "2" or "[1, 2, 4]"."""
        given = json.loads(str(cell))
        factors = [float(each) for each in given] if isinstance(given, list) else [1.0] * (world_size - 1) + [given]
        return Slowdown(sum(1 - 1 / factor for factor in factors), tuple(factors))

    @property
    def last_alone(self) -> bool:
        """Whether all ranks but the last are at full speed."""
        return set(self.factors[:-1]) <= {1.0}

    def __str__(self) -> str:
        """ "4" where only the last rank is slowed, else the factor of each: "1, 2, 4"."""
        return ", ".join(f"{factor:g}" for factor in (self.factors[-1:] if self.last_alone else self.factors))


def slowdowns(rows: pd.DataFrame) -> list[Slowdown]:
    """The slowdown of each row."""
    return [Slowdown.of(cell, int(size)) for cell, size in zip(rows["slowdown"], rows["world_size"], strict=True)]
