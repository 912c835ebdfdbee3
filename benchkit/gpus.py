"""GPUs as their driver describes them: NVML, nvidia-smi, and NUMA nodes by Linux."""

import importlib
import logging
import re
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.host import parse_core_list, read_text

PCI_DEVICES = Path("/sys/bus/pci/devices")
NODES = Path("/sys/devices/system/node")


def node_of_pci(address: str) -> int | None:
    """Return the NUMA node of a PCI device such as "0000:17:00.0"; None if unknown."""
    domain, _, rest = address.lower().partition(":")
    text = read_text(str(PCI_DEVICES / f"{domain[-4:]}:{rest}" / "numa_node"))
    return int(text) if text.isdecimal() else None  # -1 on a host without NUMA


def nodes_of_cores(cores: Collection[int]) -> list[int]:
    nodes = (int(path.name.removeprefix("node")) for path in NODES.glob("node[0-9]*"))
    return sorted(node for node in nodes if not cores_of_node(node).isdisjoint(cores))


def cores_of_node(node: int) -> set[int]:
    return parse_core_list(read_text(str(NODES / f"node{node}" / "cpulist")))


MPS_SERVER = "nvidia-cuda-mps-server"


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML sees it.

    `handle` belongs to `uuid`, which may be a MIG instance; `physical_handle` belongs to the
    physical GPU, which has clocks, power and temperature.
    """

    nvml: Any
    uuid: str
    handle: Any
    physical_handle: Any

    def reading(self) -> list[float]:
        """Return GPU_READINGS and the reasons for the clocks (record/record.py), 0 for unknown."""
        nvml, call, gpu = self.nvml, self.call, self.physical_handle
        values = (
            call("nvmlDeviceGetClockInfo", gpu, nvml.NVML_CLOCK_SM),
            call("nvmlDeviceGetClockInfo", gpu, nvml.NVML_CLOCK_MEM),
            call("nvmlDeviceGetPowerUsage", gpu) / 1e3,
            call("nvmlDeviceGetTemperature", gpu, nvml.NVML_TEMPERATURE_GPU),
            # Newer drivers and packages have the first, older ones the second.
            call("nvmlDeviceGetCurrentClocksEventReasons", gpu)
            or call("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),
        )
        return [float(value) for value in values]

    def pci(self) -> str | None:
        address = getattr(self.call("nvmlDeviceGetPciInfo", self.physical_handle), "busId", None)
        return address.decode() if isinstance(address, bytes) else address

    def num_foreign_processes(self, ours: set[int], num_ours: int) -> int:
        """Return the number of processes on this GPU that are neither ranks nor their MPS server.

        In a container NVML may report PIDs of the host's namespace. Then neither PIDs nor names
        match, and all processes beyond `num_ours` are foreign.
        """
        running = self.call("nvmlDeviceGetComputeRunningProcesses", self.handle) or []
        foreign_pids = [process.pid for process in running if process.pid not in ours]
        if len(foreign_pids) == len(running):
            return max(0, len(foreign_pids) - num_ours)
        return sum(MPS_SERVER not in self.process_name(pid) for pid in foreign_pids)

    def process_name(self, pid: int) -> str:
        name = self.call("nvmlSystemGetProcessName", pid) or ""
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of NVML; return 0 if the package or the GPU lacks it."""
        try:
            return getattr(self.nvml, name)(*arguments)
        except (AttributeError, self.nvml.NVMLError):
            return 0


def open_gpu(uuid: str) -> Gpu | None:
    """Return a GPU by its UUID without the prefix GPU- or MIG-; None if NVML lacks it."""
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
        return Gpu(nvml, prefix + uuid, handle, physical_handle_of(nvml, handle))
    return None


def physical_handle_of(nvml: Any, handle: Any) -> Any:
    try:
        return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    except nvml.NVMLError:
        return handle


BASIC = ("name", "memory.total", "driver_version", "power.limit", "clocks.max.sm", "uuid")
"""Fields that every driver reports."""
MODES = (
    "pci.bus_id", "mig.mode.current", "compute_mode", "persistence_mode", "ecc.mode.current",
)  # fmt: skip
"""Fields of newer drivers. A query with a field that the driver does not know fails as a whole."""
LIMIT_S = 60.0
"""Without persistence mode the driver initializes each GPU for each query, one after another."""
TOPOLOGY_LIMIT_S = 30.0
"""Its sum with LIMIT_S, here and in environment.py, is below EXCHANGE_TIMEOUT_S of other agents."""
MOST_LETTERS = 4000
"""Limit of the topology: 8 GPUs and 12 network cards take about 3000."""
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m")
log = logging.getLogger("benchkit")


def query_gpus() -> list[dict[str, str]]:
    """Return each GPU's fields by nvidia-smi, and `numa_node`; [] without nvidia-smi."""
    for keys in ((*BASIC, *MODES), BASIC):
        text = run_nvidia_smi(f"--query-gpu={','.join(keys)}", "--format=csv,noheader")
        if text is None:
            return []
        gpus = [dict(zip(keys, line.split(", "), strict=False)) for line in text.splitlines()]
        if gpus:
            return [gpu | numa_node(gpu) for gpu in gpus]
    return []


def numa_node(gpu: dict[str, str]) -> dict[str, str]:
    node = node_of_pci(gpu.get("pci.bus_id", ""))
    return {} if node is None else {"numa_node": str(node)}


def topology() -> str | None:
    """Return how GPUs and network cards are connected, without the legend of abbreviations."""
    text = TERMINAL_CODES.sub("", run_nvidia_smi("topo", "-m", limit_s=TOPOLOGY_LIMIT_S) or "")
    matrix, _, legend = text.partition("Legend:")
    _, title, cards = legend.partition("NIC Legend:")
    return (matrix.rstrip() + (f"\n\n{title}{cards}" if title else ""))[:MOST_LETTERS] or None


def run_nvidia_smi(*arguments: str, limit_s: float = LIMIT_S) -> str | None:
    """Return the output of nvidia-smi; "" if it fails, None if it does not run or answer."""
    if shutil.which("nvidia-smi") is None:
        return None
    try:
        done = subprocess.run(
            ("nvidia-smi", *arguments), capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        log.warning(
            "nvidia-smi %s gave no answer within %g s, so records lack it; "
            "persistence mode (nvidia-smi -pm 1) makes it faster",
            arguments[0].partition("=")[0],
            limit_s,
        )
        return None
    except OSError:
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
