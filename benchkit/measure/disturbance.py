"""What the kernel counts of work that takes a rank's cores away: read before and after a block of samples."""

import functools
import os
import resource
from pathlib import Path

from launch.topology import read_text

COUNTERS = ("steal_s", "throttled_s", "pressure_s", "host_busy_s", "own_busy_s", "involuntary_switches")
"""steal_s: time that the hypervisor gave to other machines, and host_busy_s: time in which processes
ran, both summed over the host's cores (/proc/stat). throttled_s: time that the control group of the
rank was held back by its quota (cpu.stat). pressure_s: time in which some task of the host waited for
a core (/proc/pressure/cpu). own_busy_s: time in which this process ran, and involuntary_switches: how
often another task took a core from it (getrusage)."""
BUSY, STEAL = slice(0, 3), 7
"""Places among the numbers of the first line of /proc/stat: user, nice and system time; steal (proc(5))."""

PROCESSOR = 36
"""Place of the core's number in /proc/self/stat, after the process's name in brackets (proc(5), field 39)."""


def read_counters() -> list[float]:
    """COUNTERS of this process and its host; 0 where the kernel does not tell."""
    ticks, own = numbers_after(Path("/proc/stat"), "cpu "), resource.getrusage(resource.RUSAGE_SELF)
    [throttled_us] = numbers_after(cpu_stat(), "throttled_usec") or [0.0]
    return [
        ticks[STEAL] / ticks_per_second() if len(ticks) > STEAL else 0.0,
        throttled_us / 1e6,
        pressure_s(Path("/proc/pressure/cpu")),
        sum(ticks[BUSY]) / ticks_per_second(),
        own.ru_utime + own.ru_stime,
        float(own.ru_nivcsw),
    ]


def numbers_after(path: Path, start: str) -> list[float]:
    """The numbers of the line that begins with `start`; [] where there is none."""
    line = next((line for line in read_text(str(path)).splitlines() if line.startswith(start)), "")
    try:
        return [float(word) for word in line.split()[1:]]
    except ValueError:
        return []


def pressure_s(path: Path) -> float:
    """Seconds in which some task waited, from a file as Linux 4.20 and later have it; 0 where there is none."""
    try:
        return float(read_text(str(path)).partition("\n")[0].rpartition("total=")[2]) / 1e6
    except ValueError:
        return 0.0


def core_ghz() -> float:
    """Frequency of the core that this process ran on last, in GHz; 0 where the kernel does not tell, as in most VMs."""
    after_name = read_text("/proc/self/stat").rpartition(")")[2].split()
    if len(after_name) <= PROCESSOR:
        return 0.0
    return ghz_of(Path(f"/sys/devices/system/cpu/cpu{after_name[PROCESSOR]}/cpufreq"))


def ghz_of(cpufreq: Path) -> float:
    """The present frequency by a core's folder of cpufreq; 0 where there is none."""
    khz = read_text(str(cpufreq / "scaling_cur_freq"))
    return int(khz) / 1e6 if khz.isdecimal() else 0.0


@functools.cache
def ticks_per_second() -> int:
    return os.sysconf("SC_CLK_TCK")


@functools.cache
def cpu_stat() -> Path:
    """The cpu.stat of this process's control group (version 2); that of the host's root where there is none."""
    lines = read_text("/proc/self/cgroup").splitlines()
    group = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    return Path("/sys/fs/cgroup") / group / "cpu.stat"
