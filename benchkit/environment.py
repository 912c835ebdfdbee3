"""Describes a host for its records: versions, processor, GPUs, limits, load, commit of the code."""

import functools
import importlib.util
import os
import platform
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from benchkit.ambient import variables
from benchkit.api.memory import host_available_bytes
from benchkit.checkout import checkout
from benchkit.gpus import smi
from benchkit.record.environment import VERSIONS, AgentReport, Environment, HostReport
from benchkit.record.naming import printable
from benchkit.version import __version__
from launch.topology import (
    available_cores,
    cpu_quota,
    node_name,
    read_text,
    without_pinning,
)


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
    gpus = smi.listing()
    return Environment(
        host=node_name(),
        benchkit=__version__,
        python=platform.python_version(),
        torch=torch_build()["__version__"],
        cuda=torch_build()["cuda"],
        hip=torch_build().get("hip"),
        nccl=nccl_version(),
        driver=driver_version(gpus),
        platform=platform.platform(),
        kernel=platform.release(),
        cpu=cpu_model(),
        cores=os.cpu_count(),
        available_cores=available_cores(),
        cpu_quota=cpu_quota(),
        governor=read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        gpus=gpus,
        topology=smi.topology() if gpus else None,
        variables=variables(),
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
    """Returns the version of the NCCL, or RCCL, that torch loads, or None; starts no CUDA."""
    if not is_built_for_gpus():
        return None
    with without_pinning():  # what loads torch would be pinned, and all that it starts
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


def driver_version(gpus: Sequence[Mapping[str, str]]) -> str | None:
    """Returns the version of the GPUs' driver: as nvidia-smi lists it, or of the kernel's module.

    Drivers that Linux itself brings have none.
    """
    listed = next((gpu["driver_version"] for gpu in gpus if "driver_version" in gpu), "")
    modules = (read_text(f"/sys/module/{name}/version") for name in ("nvidia", "amdgpu"))
    return next(filter(None, (listed, *modules)), None)


def is_built_for_gpus() -> bool:
    """Returns whether torch is built for CUDA or for HIP."""
    return bool(torch_build()["cuda"] or torch_build().get("hip"))


def oom_kills() -> int:
    """Returns how many processes the kernel has killed for lack of memory since it started."""
    counts = dict(line.split() for line in read_text("/proc/vmstat").splitlines())
    return int(counts.get("oom_kill", 0))
