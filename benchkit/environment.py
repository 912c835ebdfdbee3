"""Describes a host for its records: versions, processor, GPUs, limits, load, commit of the code."""

import functools
import importlib.util
import os
import platform
import runpy
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import benchkit
from benchkit.api.memory import host_available_bytes
from benchkit.checkout import checkout, output
from benchkit.record.environment import VERSIONS, AgentReport, Environment, HostReport
from launch.topology import available_cores, cpu_quota, node_name, printable, read_text


def describe() -> Environment:
    """Returns the environment of a point."""
    return replace(
        static_environment(),
        load_average=list(os.getloadavg()),
        available_bytes=host_available_bytes(),
    )


@functools.cache
def static_environment() -> Environment:
    """Returns what does not change while this process lives; read once for a whole sweep."""
    return Environment(
        host=node_name(),
        benchkit=benchkit.__version__,
        python=platform.python_version(),
        torch=torch_build()["__version__"],
        cuda=torch_build()["cuda"],
        nccl=nccl_version(),
        platform=platform.platform(),
        kernel=platform.release(),
        cpu=cpu_model(),
        cores=os.cpu_count(),
        available_cores=available_cores(),
        cpu_quota=cpu_quota(),
        governor=read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        gpus=gpus(),
        **checkout(),
        command=list(map(printable, [Path(sys.argv[0]).name, *sys.argv[1:]])),
    )


def of_agent() -> AgentReport:
    """Returns what this agent reports of its host; its ranks are not known yet."""
    environment = static_environment()
    of_host = {item.name: getattr(environment, item.name) for item in fields(HostReport)}
    return AgentReport(**{**of_host, "load_average": list(os.getloadavg())})


def version_differences(agents: Sequence[AgentReport]) -> list[str]:
    """Returns one line for each of VERSIONS in which hosts differ."""
    lines = []
    for name in VERSIONS:
        hosts_by_version: dict[Any, list[str]] = {}
        for agent in agents:
            hosts_by_version.setdefault(getattr(agent, name), []).append(agent.host)
        if len(hosts_by_version) > 1:
            lines.append(difference(name, hosts_by_version))
    return lines


def difference(name: str, hosts_by_version: Mapping[Any, Sequence[str]]) -> str:
    """Returns which hosts have which version: "n0 has torch 2.13.0, n1 has 2.12.0"."""
    clauses: list[str] = []
    for version, hosts in hosts_by_version.items():
        unique = list(dict.fromkeys(hosts))
        verb = "has" if len(unique) == 1 else "have"
        software = "" if clauses else f"{name} "
        clauses.append(f"{', '.join(unique)} {verb} {software}{version or 'none'}")
    return ", ".join(clauses)


@functools.cache
def torch_build() -> dict[str, Any]:
    """Returns what torch/version.py defines, such as `__version__`, `cuda` and `hip`.

    The file is run by itself, because an import of torch takes seconds; once per process, which has
    one torch.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torch is not installed")
    return runpy.run_path(str(Path(spec.origin).with_name("version.py")))


def nccl_version() -> str | None:
    """Returns the version of torch's NCCL, such as "2.27.5", or None; starts no CUDA."""
    if torch_build()["cuda"] is None:
        return None
    import torch.cuda.nccl

    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except (AttributeError, RuntimeError):  # a CUDA build without NCCL
        return None


def cpu_model() -> str:
    """Returns the processor's name, from /proc/cpuinfo where that file exists."""
    for line in read_text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def gpus() -> list[dict[str, str]]:
    """Returns name, memory, driver, power limit, highest clock and UUID of every GPU.

    The source is nvidia-smi, which leaves no context on the GPUs.
    """
    if shutil.which("nvidia-smi") is None:
        return []
    keys = ("name", "memory.total", "driver_version", "power.limit", "clocks.max.sm", "uuid")
    listing = output("nvidia-smi", f"--query-gpu={','.join(keys)}", "--format=csv,noheader")
    return [dict(zip(keys, line.split(", "), strict=False)) for line in listing.splitlines()]


def oom_kills() -> int:
    """Returns how many processes the kernel has killed for lack of memory since it started."""
    counts = dict(line.split() for line in read_text("/proc/vmstat").splitlines())
    return int(counts.get("oom_kill", 0))
