"""What a reader of a record must know of the machine: versions, processor, GPUs, limits, load, the code's commit."""

import functools
import importlib.util
import os
import platform
import runpy
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import benchkit
from benchkit.api.memory import host_available_bytes
from benchkit.checkout import checkout, output
from launch.topology import available_cores, cpu_quota, node_name, read_text

VERSIONS = ("torch", "cuda", "nccl", "kernel", "python", "git_commit", "git_diff_hash")
"""Software that can differ between the hosts of one run."""
OF_AGENT = ("host", "cpu", "available_cores", "gpus", *VERSIONS)
"""What can differ between the hosts of one run and does not change while a process lives."""


def describe() -> dict[str, Any]:
    """The environment of a point, as the record stores it."""
    return {
        **static_environment(),
        "load_average": list(os.getloadavg()),
        "available_bytes": host_available_bytes(),
    }


@functools.cache
def static_environment() -> dict[str, Any]:
    """What does not change while this process lives; read once for a whole sweep."""
    return {
        "host": node_name(),
        "benchkit": benchkit.__version__,
        "python": platform.python_version(),
        "torch": torch_build()["__version__"],
        "cuda": torch_build()["cuda"],
        "nccl": nccl_version(),
        "platform": platform.platform(),
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "available_cores": available_cores(),
        "cpu_quota": cpu_quota(),
        "governor": read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "gpus": gpus(),
        **checkout(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def of_agent() -> dict[str, Any]:
    """The environment of this agent's host, as the record stores it per agent."""
    known = static_environment()
    return {**{name: known[name] for name in OF_AGENT}, "load_average": list(os.getloadavg())}


def version_differences(agents: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each of VERSIONS in which agents differ: "n0 has torch 2.13.0, n1 has 2.12.0"."""
    lines = []
    for name in VERSIONS:
        hosts: dict[Any, list[str]] = {}
        for agent in agents:
            if name in agent and agent["host"] not in hosts.setdefault(agent[name], []):
                hosts[agent[name]].append(agent["host"])
        if len(hosts) > 1:
            holders = [f"{', '.join(held)} {'has' if len(held) == 1 else 'have'}" for held in hosts.values()]
            versions = [str(value or "none") for value in hosts]
            versions[0] = f"{name} {versions[0]}"
            lines.append(", ".join(map(" ".join, zip(holders, versions, strict=True))))
    return lines


@functools.cache
def torch_build() -> dict[str, Any]:
    """What torch/version.py defines: `__version__`, `cuda`, `hip`. To import torch takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torch is not installed")
    return runpy.run_path(str(Path(spec.origin).with_name("version.py")))


def nccl_version() -> str | None:
    """The version of NCCL that torch is built with, as "2.27.5"; None where it has none. Starts no CUDA."""
    if torch_build()["cuda"] is None:
        return None
    import torch.cuda.nccl

    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except (AttributeError, RuntimeError):  # a CUDA build without NCCL
        return None


def cpu_model() -> str:
    """The processor's name, from /proc/cpuinfo where there is one."""
    for line in read_text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def gpus() -> list[dict[str, str]]:
    """Every GPU by nvidia-smi, which leaves no context on it: name, memory, driver, power limit."""
    if shutil.which("nvidia-smi") is None:
        return []
    keys = ("name", "memory.total", "driver_version", "power.limit", "clocks.max.sm", "uuid")
    listing = output("nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader")
    return [dict(zip(keys, line.split(", "), strict=False)) for line in listing.splitlines()]


def visible_gpus() -> list[str]:
    """The GPUs that this process's CUDA can use, by UUID where nvidia-smi tells; nothing of CUDA is started for it."""
    usable = num_usable_gpus()
    there = [gpu["uuid"] for gpu in static_environment()["gpus"]] or [str(index) for index in range(usable)]
    chosen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    named = [there[int(name)] if name.isdigit() and int(name) < len(there) else name for name in chosen]
    return (named or there)[:usable]


def num_usable_gpus() -> int:
    """The GPUs that torch can use here; without a build for GPUs it is not asked."""
    if not (torch_build()["cuda"] or torch_build().get("hip")):
        return 0
    import torch

    return int(torch.cuda.device_count())


def oom_kills() -> int:
    """How many processes of this machine the kernel has killed for want of memory since it started."""
    counts = dict(line.split() for line in read_text("/proc/vmstat").splitlines())
    return int(counts.get("oom_kill", 0))
