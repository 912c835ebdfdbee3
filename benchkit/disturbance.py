"""What the kernel counts of work that takes a rank's cores away: read before and after a block of samples."""

import functools
import os
import resource
from pathlib import Path

COUNTERS = ("steal_s", "throttled_s", "pressure_s", "involuntary_switches")
"""steal_s: time that the hypervisor gave to other machines, summed over the host's cores
(/proc/stat). throttled_s: time that the control group of the rank was held back by its quota
(cpu.stat). pressure_s: time in which some task of the host waited for a core (/proc/pressure/cpu).
involuntary_switches: how often another task took a core from this process (getrusage)."""
STEAL = 8
"""Its place in the first line of /proc/stat (proc(5)), after the word \"cpu\"."""


def read_counters() -> list[float]:
    """COUNTERS of this process and its host; 0 where the kernel does not tell."""
    return [
        word_after(Path("/proc/stat"), "cpu ", STEAL - 1) / ticks_per_second(),
        word_after(cpu_stat(), "throttled_usec", 0) / 1e6,
        pressure_s(Path("/proc/pressure/cpu")),
        float(resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw),
    ]


def word_after(path: Path, start: str, index: int) -> float:
    """A number of the line that begins with `start`; 0 where there is none."""
    try:
        lines = path.read_text().splitlines()
        return float(next(line for line in lines if line.startswith(start)).split()[1 + index])
    except (OSError, StopIteration, IndexError, ValueError):
        return 0.0


def pressure_s(path: Path) -> float:
    """Seconds in which some task waited, from a file as Linux 4.20 and later have it; 0 where there is none."""
    try:
        return float(path.read_text().splitlines()[0].rpartition("total=")[2]) / 1e6
    except (OSError, IndexError, ValueError):
        return 0.0


@functools.cache
def ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK")


@functools.cache
def cpu_stat() -> Path:
    """The cpu.stat of this process's control group (version 2); that of the host's root where there is none."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    group = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    return Path("/sys/fs/cgroup") / group / "cpu.stat"
