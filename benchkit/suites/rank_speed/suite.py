"""The suite rank_speed: each rank without communication, all ranks at the same time."""

from dataclasses import dataclass, replace
from typing import Any

from benchkit.api.case import CallsPerSample, Case, Rank
from benchkit.api.keys import Planned, RunConfig, key
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import ITEM_BYTES, mebibytes

TEST, DTYPE = "test", "dtype"
MATMUL, COPY, TRIAD = "matmul", "copy", "triad"
TO_DEVICE, FROM_DEVICE = "host_to_device", "device_to_host"
DISK_WRITE, DISK_READ = "disk_write", "disk_read"
TESTS = (MATMUL, COPY, TRIAD, TO_DEVICE, FROM_DEVICE, DISK_WRITE, DISK_READ)
MOVED_BYTES, FLOPS = "moved_bytes", "flops_per_rank"  # details: of a call on each rank
CACHE = "cache"  # detail of a disk's case: what the kernel's cache did


DTYPES = ("float64", "float32", "bfloat16", "float16")

FILLING = CallsPerSample(fill_s=0.02)
"""Seconds of a sample, in which the clock's resolution and a launch are negligible."""
MINUTES_SHARE = 0.1
"""Share of an acceptance's time that one point takes; it is measured twice."""


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

    def planned(self, world_size: int) -> list[Planned]:
        buffer_bytes = 2**20 * float(self.memory_size)
        copied = dict.fromkeys((COPY, TO_DEVICE, FROM_DEVICE), 2 * buffer_bytes)
        copied |= {TRIAD: 3 * buffer_bytes}
        copied |= dict.fromkeys((DISK_WRITE, DISK_READ), 10 * 2**20 * float(self.disk_size))
        is_host = self.hardware.device == "cpu"
        tests = [test for test in self.tests if not (is_host and test in (TO_DEVICE, FROM_DEVICE))]
        cases = []
        for test in tests:
            if test == MATMUL:
                flops = 2.0 * self.matmul_size**3
                cases += [
                    Planned(labels=name, flops=flops, calls=self.calls()) for name in self.dtypes
                ]
            else:
                cases.append(Planned(labels=test, copied_bytes=copied[test], calls=self.calls()))
        return cases

    def calls(self) -> CallsPerSample:
        return FILLING

    def most_seconds(self) -> float:
        return 60 * MINUTES_SHARE * self.minutes

    def needed_bytes(self, world_size: int) -> float:
        """Return the bytes of three buffers, and of two factors and a product per dtype."""
        items = sum(ITEM_BYTES[dtype] for dtype in self.dtypes)
        return 3.0 * float(self.memory_size) * 2**20 + 3.0 * self.matmul_size**2 * items

    def host_bytes(self, world_size: int) -> float:
        return 2.0 * float(self.memory_size) * 2**20

    def parse(self) -> "RankSpeedConfig":
        return replace(
            self,
            memory_size=mebibytes(self.memory_size, "memory_size"),
            disk_size=mebibytes(self.disk_size, "disk_size"),
        )


def by_device(device: str, cpu: Any, cuda: Any) -> Any:
    return cuda if device == "cuda" else cpu


CASES = "benchkit.suites.rank_speed.cases"
PRELOAD = (CASES,)
RESOLVERS = {"by_device": by_device}


@suite
def rank_speed(config: RankSpeedConfig, rank: Rank) -> list[Case]:
    """Compute, memory, host to device and disk of every rank, all ranks at the same time."""
    return cases_in(CASES, config, rank)
