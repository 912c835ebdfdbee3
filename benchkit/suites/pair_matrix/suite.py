"""The suite pair_matrix: messages of every pair of ranks, each way and both ways at once."""

from dataclasses import dataclass, replace
from typing import Any

from benchkit.api.case import CallsPerSample, Case, Rank
from benchkit.api.keys import LOOP, Planned, RunConfig, as_list, key
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import mebibytes
from benchkit.errors import ConfigError

ROUND, DIRECTION, GROUP = "round", "direction", "group"
"""Labels of a case: the round of the schedule and who sends, or the level of nested groups."""
ASCENDING, DESCENDING, BOTH = "ascending", "descending", "both"
"""Directions: from the lower rank of each pair to the higher one, back, or both at once."""
SENDS_TO = "sends_to"  # detail of a case: the rank that each rank sends to, or IDLE
GROUP_OF = "group_of"  # detail of a case: the number of each rank's group at its level
IDLE = -1  # in place of a rank: it receives, or has no partner in this round
PAIRS, NODES, HALVES, ALL = "pairs", "nodes", "halves", "all"
"""Levels of nested groups, the smallest groups first."""


FILL_S = 0.002
"""Seconds of a sample of short messages; a longer message fills a sample by itself."""
MINUTES_SHARE = 0.4
"""Share of an acceptance's time that one point takes; it is measured twice."""


@dataclass
class PairMatrixConfig(RunConfig):
    sizes: Any = key(
        "sizes of a message, each a number of MiB or with its unit (8B, 1KiB)", unit="MiB"
    )
    groups: list[str] = key(
        "levels of nested groups that reduce the largest size together; [] for none"
    )
    both_at_once: bool = key(
        "whether each pair also exchanges messages, both ways at once", neutral=False
    )
    minutes: float = key(
        f"time of an acceptance, of which this point takes {MINUTES_SHARE:.0%}; rounds that do "
        "not fit are left out",
        unit="min",
        above=0,
        identity=False,
    )

    def planned(self, world_size: int) -> list[Planned]:
        """Return each size in every direction of every round, and the groups."""
        rounds = world_size - 1 + world_size % 2
        sizes = [2**20 * float(size) for size in as_list(self.sizes)]
        pairs = [Planned(sent_bytes=size, calls=self.calls()) for size in sizes]
        pairs *= len(self.directions) * rounds
        levels = 1 if world_size == 2 else len(self.groups)
        return pairs + [Planned(sent_bytes=max(sizes))] * min(levels, len(self.groups))

    def calls(self) -> CallsPerSample:
        return super().calls() if self.measure.mode == LOOP else CallsPerSample(fill_s=FILL_S)

    @property
    def directions(self) -> tuple[str, ...]:
        return (ASCENDING, DESCENDING, BOTH) if self.both_at_once else (ASCENDING, DESCENDING)

    def most_seconds(self) -> float:
        return 60 * MINUTES_SHARE * self.minutes

    def needed_bytes(self, world_size: int) -> float:
        """Return the bytes of two buffers per size, and of a copy of the largest."""
        sizes_mib = [float(size) for size in self.sizes]
        return 2**20 * (2 * sum(sizes_mib) + max(sizes_mib))

    def parse(self) -> "PairMatrixConfig":
        return replace(self, sizes=[mebibytes(size, "sizes") for size in as_list(self.sizes)])

    def check(self) -> None:
        super().check()
        if not self.sizes:
            raise ConfigError("sizes=[]: allowed is at least one size")
        levels = (PAIRS, NODES, HALVES, ALL)
        if unknown := set(self.groups) - set(levels):
            raise ConfigError(f"groups={min(unknown)}: allowed are {'|'.join(levels)}, or []")


CASES = "benchkit.suites.pair_matrix.cases"
PRELOAD = (CASES,)


@suite
def pair_matrix(config: PairMatrixConfig, rank: Rank) -> list[Case]:
    """Time of a message and its answer for every pair of ranks, in disjoint rounds."""
    return cases_in(CASES, config, rank)
