"""The configuration of the matrix of pairs."""

from dataclasses import dataclass
from typing import Any

from benchkit.api.keys import RunConfig, as_list, key
from benchkit.api.sizes import mebibytes
from benchkit.errors import ConfigError
from benchkit.suites.pair_matrix.names import ALL, HALVES, NODES, PAIRS

MINUTES_SHARE = 0.4
"""What one point takes of the time of an acceptance, which measures it twice."""


@dataclass
class PairMatrixConfig(RunConfig):
    sizes: Any = key(
        "sizes of a message, each a number of MiB or with its unit (8B, 1KiB)", unit="MiB"
    )
    groups: list[str] = key(
        "levels of nested groups that reduce the largest size together; [] for none"
    )
    minutes: float = key(
        f"time of an acceptance, of which this point takes {MINUTES_SHARE:.0%}; rounds that do "
        "not fit are left out",
        unit="min",
        above=0,
        identity=False,
    )

    def most_seconds(self) -> float:
        return 60 * MINUTES_SHARE * self.minutes

    def needed_bytes(self, world_size: int) -> float:
        """Return what a rank holds: two buffers per size, and a copy of the largest."""
        sizes_mib = [float(size) for size in self.sizes]
        return 2**20 * (2 * sum(sizes_mib) + max(sizes_mib))

    def check(self) -> None:
        super().check()
        self.sizes = [mebibytes(size, "sizes") for size in as_list(self.sizes)]
        if not self.sizes:
            raise ConfigError("sizes=[]: allowed is at least one size")
        levels = (PAIRS, NODES, HALVES, ALL)
        if unknown := set(self.groups) - set(levels):
            raise ConfigError(f"groups={min(unknown)}: allowed are {'|'.join(levels)}, or []")
