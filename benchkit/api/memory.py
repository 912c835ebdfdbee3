"""Measure free memory and peak use, and wait for a GPU."""

import ctypes
import gc
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch.host import ROOT, cgroups_by_version, read_text

if TYPE_CHECKING:
    import torch

MEMORY_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By cgroup version: files of limit and usage, and the key in memory.stat of the reclaimable file
cache."""
RESET_PEAK = "5"


def available_bytes(device: "torch.device") -> int:
    if device.type == "cpu":
        return host_available_bytes()
    return int(module_of(device).mem_get_info(device)[0])


def module_of(device: "torch.device") -> Any:
    """Return torch's module of a kind of device: torch.cuda, torch.cpu, torch.xpu."""
    import torch

    return torch.get_device_module(device)


def host_available_bytes(root: Path = ROOT) -> int:
    """Return the free bytes of this host within the limits of its control groups."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in read_text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for version, folders in cgroups_by_version("memory", root).items():
        limit_file, usage_file, cache_key = MEMORY_FILES[version]
        for folder in folders:
            limit, usage = read_text(folder / limit_file), read_text(folder / usage_file)
            if limit.isdigit() and usage.isdigit():
                lines = read_text(folder / "memory.stat").splitlines()
                statistics = dict(line.split() for line in lines)
                free = min(free, int(limit) - int(usage) + int(statistics.get(cache_key, 0)))
    return free


def free_unused() -> None:
    """Free the memory of reference cycles and of torch's cache."""
    import torch

    gc.collect()  # it is off while cases are timed
    torch.cuda.empty_cache()


class PeakMemory:
    """Peak of the memory in use since reset(), in bytes.

    On a GPU it is the memory allocated by torch; on a CPU the resident memory of this process.
    """

    def __init__(self, device: "torch.device") -> None:
        self._device = device
        self._cuda = None if device.type == "cpu" else module_of(device)

    def reset(self) -> None:
        """Start a new peak.

        On a CPU the allocator first returns its free memory, so that the next call allocates anew.
        """
        if self._cuda:
            self._cuda.reset_peak_memory_stats(self._device)
            return
        with suppress(AttributeError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)
        with suppress(OSError):  # without it the peak is since the start of the process
            Path("/proc/self/clear_refs").write_text(RESET_PEAK)

    def peak_bytes(self) -> int:
        if self._cuda:
            return int(self._cuda.max_memory_allocated(self._device))
        for line in read_text("/proc/self/status").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def reserved_and_outside(self) -> tuple[int, int] | None:
        """Return bytes of GPU memory (peak reserved, outside of torch); None on a CPU.

        The first is the peak since reset() of the memory reserved by torch's allocator. The second
        is in use now outside of it: contexts, NCCL's buffers, and other processes.
        """
        if self._cuda is None:
            return None
        free, total = self._cuda.mem_get_info(self._device)
        reserved = self._cuda.memory_reserved(self._device)
        return int(self._cuda.max_memory_reserved(self._device)), int(total - free - reserved)


def wait_for_device(tensor: "torch.Tensor") -> None:
    """Synchronize with the GPU of a tensor; return at once on other devices.

    A read waits, too, but in C, with the reader as innermost Python frame: a rank that hangs there
    would look like the cause of the hang. torch.cuda.synchronize counts as waiting
    (launch/ranks/logs.py).
    """
    if tensor.is_cuda:
        import torch

        torch.cuda.synchronize(tensor.device)
