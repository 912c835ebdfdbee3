"""Read the kernel's counters of disturbances of a rank, before and after a block."""

import functools
import os
import resource
from pathlib import Path

from launch.host import cgroup_folders, read_text

COUNTERS = (
    "steal_s",
    "throttled_s",
    "pressure_s",
    "host_busy_s",
    "own_busy_s",
    "involuntary_switches",
)
"""Names of the counters; those that end with _s are seconds.

steal_s: time stolen by the hypervisor, summed over the host's cores (/proc/stat).
throttled_s: time in which quotas throttled the control groups of the rank (cpu.stat).
pressure_s: time in which some task of the host waited for a core (/proc/pressure/cpu).
host_busy_s: time in which processes ran, summed over the host's cores (/proc/stat).
own_busy_s: time in which this process ran (getrusage).
involuntary_switches: number of preemptions of this process (getrusage)."""
BUSY = slice(0, 3)
"""Positions of user, nice and system time in the first line of /proc/stat (proc(5))."""
STEAL = 7  # position of the stolen time in the same line
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PROCESSOR = 36
"""Position of the core's number in /proc/self/stat, after the name in brackets (proc(5), field
39)."""


def read_counters() -> list[float]:
    """Return COUNTERS of this process and its host; 0 for a counter that the kernel lacks."""
    ticks = numbers_after(Path("/proc/stat"), "cpu ")
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return [
        ticks[STEAL] / TICKS_PER_SECOND if len(ticks) > STEAL else 0.0,
        sum(map(throttled_s, cpu_stats())),
        pressure_s(Path("/proc/pressure/cpu")),
        sum(ticks[BUSY]) / TICKS_PER_SECOND,
        usage.ru_utime + usage.ru_stime,
        float(usage.ru_nivcsw),
    ]


def numbers_after(path: Path, start: str) -> list[float]:
    """Return the numbers of the line that begins with `start`, or []."""
    line = next((line for line in read_text(str(path)).splitlines() if line.startswith(start)), "")
    try:
        return [float(number) for number in line.split()[1:]]
    except ValueError:
        return []


def pressure_s(path: Path) -> float:
    """Return the seconds in which some task waited; 0 without the file (before Linux 4.20)."""
    try:
        return float(read_text(str(path)).partition("\n")[0].rpartition("total=")[2]) / 1e6
    except ValueError:
        return 0.0


def core_ghz() -> float:
    """Return the frequency in GHz of the core that this process ran on last.

    It is 0 if the kernel does not report it, as in most virtual machines.
    """
    after_name = read_text("/proc/self/stat").rpartition(")")[2].split()
    if len(after_name) <= PROCESSOR:
        return 0.0
    return ghz_of(Path(f"/sys/devices/system/cpu/cpu{after_name[PROCESSOR]}/cpufreq"))


def ghz_of(cpufreq: Path) -> float:
    """Return a core's present frequency in GHz from its folder of cpufreq; 0 without one."""
    khz = read_text(str(cpufreq / "scaling_cur_freq"))
    return int(khz) / 1e6 if khz.isdecimal() else 0.0


@functools.cache
def cpu_stats() -> list[Path]:
    """Return the cpu.stat files of this process's control groups, each of which may have a quota.

    Cached, so that a block's counters cost little; a rank stays in its group.
    """
    paths = [folder / "cpu.stat" for folder in cgroup_folders("cpu")]
    return [path for path in paths if "throttled" in read_text(path)]


def throttled_s(path: Path) -> float:
    """Return the seconds in which the quota of a control group throttled it."""
    for name, per_second in (("throttled_usec", 1e6), ("throttled_time", 1e9)):  # versions 2 and 1
        for time in numbers_after(path, name):
            return time / per_second
    return 0.0
