"""How much memory there is, and how much was in use at most."""

import ctypes
import importlib
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from launch.topology import read_text

if TYPE_CHECKING:
    import torch

MEMORY_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file",
    ),
)  # fmt: skip
"""Of cgroups v2 and v1: the limit, what is in use, and what of that are files that the kernel would drop."""
RESET_PEAK = "5"


def available_bytes(device: "torch.device") -> int:
    """Free memory of a device."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return host_available_bytes()


def host_available_bytes() -> int:
    """Free memory of this machine, cut to what the cgroup's limit leaves."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in read_text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for limit, usage, listed, files in MEMORY_LIMITS:
        if (there := read_text(limit)).isdigit() and (used := read_text(usage)).isdigit():
            told = dict(line.split() for line in read_text(listed).splitlines())
            free = min(free, int(there) - int(used) + int(told.get(files, 0)))
    return free


class PeakMemory:
    """The most memory in use since reset(): allocated on a GPU, or resident in this process, its libraries included."""

    def __init__(self, device: "torch.device") -> None:
        self._device = device
        self._cuda = importlib.import_module("torch.cuda") if device.type == "cuda" else None

    def reset(self) -> None:
        """Begins anew. On a CPU the allocator first gives back what it keeps, which the next call has to ask for."""
        if self._cuda:
            self._cuda.reset_peak_memory_stats(self._device)
            return
        with suppress(AttributeError):  # glibc alone has it
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):  # else the peak is of the whole life of the process
            Path("/proc/self/clear_refs").write_text(RESET_PEAK)

    def peak_bytes(self) -> int:
        if self._cuda:
            return int(self._cuda.max_memory_allocated(self._device))
        for line in read_text("/proc/self/status").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
