"""What ranks tell of their clocks and of the harness. Imports no torch, which only ranks load."""

from dataclasses import dataclass

SECONDS = "BENCHKIT_HARNESS_SECONDS"
"""Environment variable: how long the blocks of one case take together."""


@dataclass(frozen=True)
class Report:
    """What the ranks of one job found.

    Attributes:
        what: names the case.
        offset_low_s: lower bound of the offset between the ranks' clocks.
        offset_high_s: its upper bound.
        bare_s: seconds per call by a bare loop, [round].
        benchkit_s: seconds per call by benchkit, in the same rounds.
    """

    what: str
    offset_low_s: float
    offset_high_s: float
    bare_s: list[float]
    benchkit_s: list[float]
