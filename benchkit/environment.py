"""Describes a host for its records: versions, processor, GPUs, limits, load and commit."""

import ctypes
import functools
import hashlib
import importlib.util
import logging
import os
import platform
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from benchkit import child, gpus
from benchkit.api.memory import host_available_bytes
from benchkit.git import GitFailed, git
from benchkit.record.naming import escape_unprintable
from benchkit.record.record import VERSIONS, AgentReport, Environment, HostReport
from benchkit.secrets import mask_value, mask_words
from benchkit.version import __version__
from launch.host import available_cores, cpu_quota, hide_pinning, node_name, read_text


class Checkout(TypedDict):
    """Commit of benchkit's own checkout, and a hash of uncommitted changes (12 hex digits).

    All are None where git does not track this file: a package that is installed below somebody's
    repository is not part of that repository.
    """

    git_commit: str | None
    git_dirty: bool | None
    git_diff_hash: str | None


@functools.cache
def checkout() -> Checkout:
    """Return the checkout at the start of this process: that code runs."""
    is_tracked = query_git("ls-files", "--", Path(__file__).name)
    commit = query_git("rev-parse", "HEAD") if is_tracked else ""
    if not commit:
        return {"git_commit": None, "git_dirty": None, "git_diff_hash": None}
    difference = query_git("diff", "--no-ext-diff", "--no-color", "--binary", "HEAD", "--")
    content = difference.encode(errors="surrogateescape")
    diff_hash = hashlib.sha256(content).hexdigest()[:12] if difference else None
    return {"git_commit": commit, "git_dirty": bool(difference), "git_diff_hash": diff_hash}


def query_git(*arguments: str) -> str:
    """Return git's output for the folder of this file; "" if git fails or does not run.

    git refuses another user's checkout. This one is trusted: its code runs here already.
    """
    folder, trusted = Path(__file__).parent, ("-c", "safe.directory=*")
    with suppress(GitFailed):
        return git(folder, *trusted, *arguments, timeout_s=10)
    return ""


PREFIXES = (
    "NCCL_", "RCCL_", "UCX_", "UCC_", "GLOO_",
    "TORCH_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_",
    "HSA_", "ROCR_", "HIP_", "MIOPEN_",
    "OMP_", "GOMP_", "KMP_", "MKL_",
)  # fmt: skip
MOST_LETTERS = 200


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {
        name: escape_unprintable(mask_value(name, value))[:MOST_LETTERS]
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES)
    }


def read_environment() -> Environment:
    return replace(
        static_environment(),
        load_average=load_average(),
        available_bytes=host_available_bytes(),
    )


@functools.cache
def static_environment() -> Environment:
    """Return the facts that are constant in this process; read once for a whole sweep."""
    gpu_rows = gpus.query_gpus()
    return Environment(
        host=node_name(),
        benchkit=__version__,
        python=platform.python_version(),
        torch=torch_build()["__version__"],
        cuda=torch_build()["cuda"],
        hip=torch_build().get("hip"),
        nccl=nccl_version(),
        driver=driver_version(gpu_rows),
        platform=platform.platform(),
        kernel=platform.release(),
        cpu=cpu_model(),
        cores=os.cpu_count(),
        available_cores=available_cores(),
        cpu_quota=cpu_quota(),
        governor=read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        gpus=gpu_rows,
        topology=gpus.topology() if gpu_rows else None,
        variables=variables(),
        **checkout(),
        command=list(map(escape_unprintable, [Path(sys.argv[0]).name, *mask_words(sys.argv[1:])])),
    )


def agent_report() -> AgentReport:
    """Return this agent's report of its host; its ranks are not known yet."""
    environment = static_environment()
    host_facts = {item.name: getattr(environment, item.name) for item in fields(HostReport)}
    return AgentReport(**{**host_facts, "load_average": load_average()})


def load_average() -> list[float]:
    with suppress(OSError):
        return list(os.getloadavg())
    return []


def version_differences(agents: Sequence[AgentReport]) -> list[str]:
    """Return one line for each of VERSIONS in which hosts differ."""
    lines = []
    for name in VERSIONS:
        hosts_by_version: dict[Any, list[str]] = {}
        for agent in agents:
            hosts_by_version.setdefault(getattr(agent, name), []).append(agent.host)
        if len(hosts_by_version) > 1:
            lines.append(difference(name, hosts_by_version))
    return lines


def difference(name: str, hosts_by_version: Mapping[Any, Sequence[str]]) -> str:
    """Return a text such as "n0 has torch 2.13.0, n1 has 2.12.0"."""
    clauses: list[str] = []
    for version, hosts in hosts_by_version.items():
        unique = list(dict.fromkeys(hosts))
        verb = "has" if len(unique) == 1 else "have"
        software = "" if clauses else f"{name} "
        clauses.append(f"{', '.join(unique)} {verb} {software}{version or 'none'}")
    return ", ".join(clauses)


@functools.cache
def torch_build() -> dict[str, str | None]:
    """Return what torch/version.py defines, such as `__version__`, `cuda` and `hip`.

    The file is run by itself, because an import of torch takes seconds.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torch is not installed")
    return runpy.run_path(str(Path(spec.origin).with_name("version.py")))


def nccl_version() -> str | None:
    """Return the version of the NCCL, or RCCL, that torch loads, or None; start no CUDA."""
    if not is_built_for_gpus():
        return None
    with hide_pinning():  # else torch pins this process, and all that it starts
        import torch.cuda.nccl

    number = ctypes.c_int()
    for library in ("libnccl.so.2", "librccl.so.1"):
        with suppress(OSError, AttributeError):
            loaded = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            if loaded.ncclGetVersion(ctypes.byref(number)) == 0:
                major, rest = divmod(number.value, 10000)
                return f"{major}.{rest // 100}.{rest % 100}"
    try:  # linked into torch: the version that torch was built with
        return ".".join(map(str, torch.cuda.nccl.version()))
    except (AttributeError, RuntimeError):  # a CUDA build without NCCL
        return None


def cpu_model() -> str:
    for line in read_text("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def driver_version(gpus: Sequence[Mapping[str, str]]) -> str | None:
    """Return the version of the GPUs' driver by nvidia-smi, or of the kernel's module.

    Drivers that are part of Linux have none.
    """
    listed = next((gpu["driver_version"] for gpu in gpus if "driver_version" in gpu), "")
    modules = (read_text(f"/sys/module/{name}/version") for name in ("nvidia", "amdgpu"))
    return next(filter(None, (listed, *modules)), None)


def is_built_for_gpus() -> bool:
    return bool(torch_build()["cuda"] or torch_build().get("hip"))


def oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since it started."""
    counts = dict(line.split() for line in read_text("/proc/vmstat").splitlines())
    return int(counts.get("oom_kill", 0))


DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/nvmap")
"""Files of the drivers of NVIDIA, AMD, Windows' subsystem for Linux and Tegra; one is there."""
LIMIT_S = 60.0
"""Without persistence mode the driver initializes each GPU, one after another."""
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class VisibleGpus:
    """The GPUs that CUDA or HIP shows to this process, or why there are none.

    `names` are UUIDs as CUDA_VISIBLE_DEVICES takes them, in the order of their indexes; they
    are indexes if torch cannot distinguish the GPUs.
    """

    names: list[str] = field(default_factory=list)
    missing_reason: str | None = None


@functools.cache
def visible_gpus() -> VisibleGpus:
    """Return the GPUs that the ranks can use; queried once: ranks inherit this environment.

    Without a driver, or without a torch for GPUs, no process is started.
    """
    if importlib.util.find_spec("torch") is None:  # --help works without it
        return VisibleGpus(missing_reason="torch is not installed")
    if not is_built_for_gpus():
        return VisibleGpus(missing_reason="torch is not built for GPUs")
    if not any(map(os.path.exists, DRIVERS)):
        return VisibleGpus(missing_reason="no driver of GPUs is loaded")
    visible = query_gpus_in_child()
    if visible.missing_reason:
        log.warning("no GPU is used: %s", visible.missing_reason)
    return visible


def query_gpus_in_child() -> VisibleGpus:
    try:
        printed = child.capture_output(child.module_command("benchkit.environment", ()), LIMIT_S)
    except subprocess.TimeoutExpired:
        return VisibleGpus(missing_reason=f"the start of CUDA took longer than {LIMIT_S:g} s")
    json_line = child.last_line(printed.out.strip())  # torch may print, too
    try:
        return msgspec.json.decode(json_line, type=VisibleGpus)
    except msgspec.DecodeError:
        reason = child.last_line(printed.errors.strip()) or f"exit code {printed.code}"
        return VisibleGpus(missing_reason=f"the start of CUDA failed: {reason}")


def enumerate_gpus() -> VisibleGpus:
    """Start CUDA or HIP in this process and return the GPUs that it shows."""
    import torch

    try:
        torch.cuda.init()
        indexes = range(torch.cuda.device_count())
        names = [name_of(torch.cuda.get_device_properties(index)) for index in indexes]
    except Exception as error:  # of many types, among them AssertionError and DeferredCudaCallError
        return VisibleGpus(
            missing_reason=(str(error).strip() or type(error).__name__).splitlines()[0]
        )
    are_unique = all(names) and len(set(names)) == len(names)
    return VisibleGpus(names if are_unique else list(map(str, indexes)))


def name_of(properties: Any) -> str:
    """Return the UUID of a GPU as CUDA_VISIBLE_DEVICES takes it; "" if torch has none.

    Torch omits its prefix. CUDA appends the size of an instance (MIG) to the name of its
    GPU: "NVIDIA A100-SXM4-40GB MIG 3g.20gb".
    """
    uuid = str(getattr(properties, "uuid", ""))
    kind = "MIG" if " MIG " in properties.name else "GPU"
    return f"{kind}-{uuid}" if uuid.strip("0-") else ""


if __name__ == "__main__":
    print(msgspec.json.encode(enumerate_gpus()).decode())
