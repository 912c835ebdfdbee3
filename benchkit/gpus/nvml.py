"""The state of one GPU by NVML, through the optional package nvidia-ml-py (module `pynvml`).

A call takes about a millisecond, starts no process and leaves no context on the GPU.
"""

import importlib
from dataclasses import dataclass
from typing import Any

MPS_SERVER = "nvidia-cuda-mps-server"


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML sees it.

    Attributes:
        nvml: the module pynvml.
        uuid: of the GPU, or of the MIG instance.
        instance: handle of the same.
        whole: handle of the physical GPU, which has clocks, power and temperature.
    """

    nvml: Any
    uuid: str
    instance: Any
    whole: Any

    def reading(self) -> list[float]:
        """Returns READINGS and the reasons for the clocks (benchkit/record/gpu_state.py).

        What is not known is 0.
        """
        nvml, ask, gpu = self.nvml, self.ask, self.whole
        values = (
            ask("nvmlDeviceGetClockInfo", gpu, nvml.NVML_CLOCK_SM),
            ask("nvmlDeviceGetClockInfo", gpu, nvml.NVML_CLOCK_MEM),
            ask("nvmlDeviceGetPowerUsage", gpu) / 1e3,
            ask("nvmlDeviceGetTemperature", gpu, nvml.NVML_TEMPERATURE_GPU),
            # Newer drivers and packages have the first, older ones the second.
            ask("nvmlDeviceGetCurrentClocksEventReasons", gpu)
            or ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),
        )
        return [float(value) for value in values]

    def pci(self) -> str | None:
        """Returns its address, such as "00000000:17:00.0"; None where it is not known."""
        address = getattr(self.ask("nvmlDeviceGetPciInfo", self.whole), "busId", None)
        return address.decode() if isinstance(address, bytes) else address

    def strangers(self, ours: set[int], num_ours: int) -> int:
        """Returns how many processes compute on it beside the ranks and their MPS server.

        In a container NVML may count processes by the numbers that they have outside. Then neither
        numbers nor names are known, and all beyond the number of ours are strangers.

        Args:
            ours: ids of the processes of all ranks.
            num_ours: number of our processes on this GPU, with the MPS server that they share.
        """
        running = self.ask("nvmlDeviceGetComputeRunningProcesses", self.instance) or []
        others = [each.pid for each in running if each.pid not in ours]
        if len(others) == len(running):
            return max(0, len(others) - num_ours)
        return sum(MPS_SERVER not in self.process_name(pid) for pid in others)

    def process_name(self, pid: int) -> str:
        """Returns the command of a process; "" where it is not known."""
        name = self.ask("nvmlSystemGetProcessName", pid) or ""
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Returns what a function of NVML answers; 0 where the package or the GPU lacks it."""
        try:
            return getattr(self.nvml, name)(*arguments)
        except (AttributeError, self.nvml.NVMLError):
            return 0


def open_gpu(uuid: str) -> Gpu | None:
    """Returns a GPU by its UUID, which CUDA tells without the prefix GPU- or MIG-.

    None without the package, without NVML, and where NVML does not know the GPU.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    for prefix in ("GPU-", "MIG-"):
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(prefix + uuid)
        except nvml.NVMLError:
            continue
        return Gpu(nvml, prefix + uuid, handle, physical(nvml, handle))
    return None


def physical(nvml: Any, handle: Any) -> Any:
    """Returns the handle of the physical GPU of a MIG instance; of any other GPU its own."""
    try:
        return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    except nvml.NVMLError:
        return handle
