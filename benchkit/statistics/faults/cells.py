"""Candidates for a fault with their cells, and what counts as a fault."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Family:
    """Candidates of one kind.

    Attributes:
        name: of the kind.
        subjects: number of each candidate among its like, such as a rank: [candidate].
        cells: of each candidate, -1 for no further one: [candidate][place].
        shows: the cells by which it is judged: those that it certainly slows if it is slow; -1 at
            the other places. All its cells are set aside with it.
    """

    name: str
    subjects: Ints
    cells: Ints
    shows: Ints


@dataclass(frozen=True)
class Fault:
    """A candidate that is slower than its peers.

    Attributes:
        family: name of its family.
        subject: its number there.
        ratio: how many times as long it takes as its peers.
        z: the logarithm of the ratio over its standard error.
        num_cells: cells by which it was judged.
    """

    family: str
    subject: int
    ratio: float
    z: float
    num_cells: int


@dataclass(frozen=True)
class Limits:
    """What counts as a fault.

    Attributes:
        tolerance: smallest slowdown that matters, as a share.
        floor: standard deviation of logarithms of identical runs; smaller spreads are not trusted.
        alpha: chance of any false fault in a healthy table.
    """

    tolerance: float = 0.1
    floor: float = 0.0
    alpha: float = 0.05


def family(name: str, *keys: Ints, shows: Sequence[Mask] = ()) -> Family:
    """Returns the candidates of a family.

    Args:
        name: of the family.
        keys: for each cell the candidate that it belongs to, -1 for none: [cell]. A cell may belong
            to one candidate per array.
        shows: for each array of keys the cells that its candidates slow for certain; by default
            all: [cell].
    """
    owners = np.concatenate(keys)
    cells = np.tile(np.arange(len(keys[0])), len(keys))
    kept = owners >= 0
    order = np.argsort(owners[kept], kind="stable")
    owners, cells = owners[kept][order], cells[kept][order]
    subjects, starts, counts = np.unique(owners, return_index=True, return_counts=True)
    table = np.full((len(subjects), max(counts, default=0)), -1)
    places = np.arange(len(owners)) - np.repeat(starts, counts)
    rows = np.repeat(np.arange(len(subjects)), counts)
    table[rows, places] = cells
    if not shows:
        return Family(name, subjects, table, table)
    showing = np.full_like(table, -1)
    showing[rows, places] = np.where(np.concatenate(shows)[kept][order], cells, -1)
    return Family(name, subjects, table, showing)
