"""What a reader of a record must know of the machine: versions, processor, GPUs, limits, load, the code's commit."""

import functools
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import benchkit
from benchkit.memory import available_bytes
from launch.topology import available_cores, cpu_quota, node_name, read_text


def describe() -> dict[str, Any]:
    """The environment of a point, as the record stores it."""
    return {
        **lasting(),
        "load_average": list(os.getloadavg()),
        "available_bytes": available_bytes(torch.device("cpu")),
    }


@functools.cache
def lasting() -> dict[str, Any]:
    """What does not change while this process lives; read once for a whole sweep."""
    commit = git("rev-parse", "HEAD") or None
    return {
        "host": node_name(),
        "benchkit": benchkit.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "available_cores": available_cores(),
        "cpu_quota": cpu_quota(),
        "governor": read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        "gpus": gpus(),
        "git_commit": commit,
        "git_dirty": bool(git("status", "--porcelain", "--untracked-files=no")) if commit else None,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


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
    usable = torch.cuda.device_count()
    there = [gpu["uuid"] for gpu in lasting()["gpus"]] or [str(index) for index in range(usable)]
    chosen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    named = [there[int(name)] if name.isdigit() and int(name) < len(there) else name for name in chosen]
    return (named or there)[:usable]


def git(*arguments: str) -> str:
    """Asks git about the checkout that this code lies in; "" where it lies in none."""
    return output("git", "-C", str(Path(__file__).parent), *arguments)


def output(*command: str) -> str:
    """What a short command prints, or "" where it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def oom_kills() -> int:
    """How many processes of this machine the kernel has killed for want of memory since it started."""
    counts = dict(line.split() for line in read_text("/proc/vmstat").splitlines())
    return int(counts.get("oom_kill", 0))
