"""The configuration of what each rank does alone."""

from dataclasses import dataclass
from typing import Any

from benchkit.api.keys import RunConfig, key
from benchkit.api.sizes import ITEM_BYTES, mebibytes
from benchkit.suites.rank_speed.names import TESTS

DTYPES = ("float64", "float32", "bfloat16", "float16")

MINUTES_SHARE = 0.1
"""What one point takes of the time of an acceptance, which measures it twice."""


@dataclass
class RankSpeedConfig(RunConfig):
    tests: list[str] = key("what each rank does", choices=TESTS)
    dtypes: list[str] = key("element types of the matrix products", choices=DTYPES)
    matmul_size: int = key("rows and columns of the matrices", unit="rows", at_least=1)
    memory_size: Any = key("size of each buffer, larger than caches", unit="MiB")
    disk_size: Any = key("size of the file in the output folder", unit="MiB")
    minutes: float = key(
        f"time of an acceptance, of which this point takes {MINUTES_SHARE:.0%}; tests that do not "
        "fit are skipped",
        unit="min",
        above=0,
        identity=False,
    )

    def most_seconds(self) -> float:
        return 60 * MINUTES_SHARE * self.minutes

    def needed_bytes(self, world_size: int) -> float:
        """Return what a rank holds: three buffers, and two factors and a product per dtype."""
        items = sum(ITEM_BYTES[dtype] for dtype in self.dtypes)
        return 3.0 * float(self.memory_size) * 2**20 + 3.0 * self.matmul_size**2 * items

    def host_bytes(self, world_size: int) -> float:
        return 2.0 * float(self.memory_size) * 2**20

    def check(self) -> None:
        super().check()
        self.memory_size = mebibytes(self.memory_size, "memory_size")
        self.disk_size = mebibytes(self.disk_size, "disk_size")


def by_device(device: str, cpu: Any, cuda: Any) -> Any:
    """Return the default for a kind of device."""
    return cuda if device == "cuda" else cpu
