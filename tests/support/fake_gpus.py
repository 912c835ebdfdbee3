"""Stand-ins for what NVIDIA's tools tell of GPUs: an nvidia-smi on PATH, and the module pynvml."""

import os
from pathlib import Path
from types import ModuleType, SimpleNamespace

H100 = "NVIDIA H100 80GB HBM3, 81559 MiB, 550.54.15, 700.00 W, 1980 MHz, GPU-{0}"
MODES = ", 00000000:{0:02X}:00.0, Disabled, Default, Enabled, Enabled"
TOPOLOGY = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\x1b[0m
GPU0\t X \tNV18\tPIX\t0-55
GPU1\tNV18\t X \tSYS\t0-55

Legend:

  X    = Self
  SYS  = Connection traversing PCIe

NIC Legend:

  NIC0: mlx5_0
"""
NVIDIA_SMI = """#!/bin/sh
echo "$1" >> "{folder}/asked"
case "$1" in
  topo) cat "{folder}/topology" ;;
  *mig.mode*) cat "{folder}/listing" ;;
  *) cat "{folder}/basic" ;;
esac
"""


def install_nvidia_smi(folder: Path, monkeypatch, num_gpus=2, body=NVIDIA_SMI, knows_modes=True) -> Path:
    """Puts an nvidia-smi first on PATH; returns the file where it notes what it was asked for."""
    basic = [H100.format(index) for index in range(num_gpus)]
    (folder / "basic").write_text("".join(line + "\n" for line in basic))
    if knows_modes:  # else cat fails
        lines = [line + MODES.format(0x17 + index) for index, line in enumerate(basic)]
        (folder / "listing").write_text("".join(line + "\n" for line in lines))
    (folder / "topology").write_text(TOPOLOGY)
    script = folder / "nvidia-smi"
    script.write_text(body.format(folder=folder))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "asked"


class NVMLError(Exception):
    """As pynvml raises for every failure."""


class FakeNvml(ModuleType):
    """The module pynvml of a host with one GPU. Handles are UUIDs.

    Attributes:
        readings: SM clock, memory clock, power, temperature and reasons, one row per reading; the last stays.
        processes: ids of the processes on the GPU, with their names.
        refused: names of the functions that the GPU does not support.
        calls: names of the functions called.
    """

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, readings=((1980, 2619, 650_000, 60, 0),), processes=(), refused=(), known=("GPU-a",)):
        super().__init__("pynvml")
        self.readings, self.processes = list(readings), dict(processes)
        self.refused, self.known, self.calls = refused, known, []

    def note(self, name):
        self.calls.append(name)
        if name in self.refused:
            raise NVMLError("Not Supported")

    def nvmlInit(self):
        self.note("nvmlInit")

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.known:
            raise NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):
        if not handle.startswith("MIG-"):
            raise NVMLError("Invalid Argument")
        return "GPU-parent"

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId="00000000:17:00.0")

    def nvmlDeviceGetClockInfo(self, handle, clock):
        self.note("nvmlDeviceGetClockInfo")
        assert not handle.startswith("MIG-"), "an instance has no clocks of its own"
        return self.readings[0][clock - 1]

    def nvmlDeviceGetPowerUsage(self, handle):
        self.note("nvmlDeviceGetPowerUsage")
        return self.readings[0][2]

    def nvmlDeviceGetTemperature(self, handle, sensor):
        self.note("nvmlDeviceGetTemperature")
        return self.readings[0][3]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        """The last of a reading: the next one follows."""
        self.note("nvmlDeviceGetCurrentClocksThrottleReasons")
        return (self.readings.pop(0) if len(self.readings) > 1 else self.readings[0])[4]

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        self.note("nvmlDeviceGetComputeRunningProcesses")
        return [SimpleNamespace(pid=pid) for pid in self.processes]

    def nvmlSystemGetProcessName(self, pid):
        self.note("nvmlSystemGetProcessName")
        return self.processes[pid]
