"""What a point belongs to: the machine's noise floor, and the comparison that it was run for."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from benchkit.record.numbers import Amount, Count, Position, Seconds

PlainText = Annotated[str, Meta(pattern=r"^[ -~]{1,60}\Z")]
"""Printable ASCII, which no terminal takes for a command."""


@dataclass(frozen=True, kw_only=True)
class NoiseFloor:
    """How much identical runs differ on the machine of a point, found by a selftest.

    Attributes:
        id: of the selftest.
        age_s: of the selftest when the point ended, in seconds.
        sigma_run: standard deviation of the logarithms of the medians of identical runs.
        at: what ran, of the selftest's sizes the one that takes most nearly as long.
    """

    id: PlainText
    age_s: Seconds
    sigma_run: Amount
    at: PlainText


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of arms that a point was run for (benchkit/compare).

    Attributes:
        id: of the comparison.
        arm: as it was typed.
        pair: number of the round in the order of runs, from 1. Both runs of an A/A pair have the
            baseline as their arm.
        position: of the run in its round, from 0.
    """

    id: str
    arm: str
    pair: Count
    position: Position
