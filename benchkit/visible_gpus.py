"""Which GPUs the ranks of this process can use, and in which order.

    python -m benchkit.visible_gpus      prints them as JSON

Only CUDA or HIP itself knows: variables hide, order and divide GPUs. It is started in a process
that ends at once, because a process that has started it cannot hand it on to the ranks.
"""

import functools
import logging
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchkit.environment import is_built_for_gpus
from launch.module_path import path_options

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/nvmap")
"""Files of the drivers of NVIDIA, AMD, Windows' subsystem for Linux and Tegra; one is there."""
LIMIT_S = 60.0
"""Without persistence mode the driver initializes each GPU, one after another."""
log = logging.getLogger("benchkit")


@dataclass(frozen=True)
class VisibleGpus:
    """The GPUs that CUDA or HIP shows to this process.

    Attributes:
        names: their UUIDs as CUDA_VISIBLE_DEVICES takes them, in the order of their indexes; the
            indexes where torch cannot tell the GPUs apart.
        lack: why there are none; "" if there are some.
    """

    names: list[str] = field(default_factory=list)
    lack: str = ""


@functools.cache
def visible_gpus() -> VisibleGpus:
    """Returns the GPUs that the ranks can use; asked once, as ranks inherit this environment.

    Without a driver, or without a torch for GPUs, no process is started.
    """
    if not is_built_for_gpus():
        return VisibleGpus(lack="torch is not built for GPUs")
    if not any(Path(driver).exists() for driver in DRIVERS):
        return VisibleGpus(lack="no driver of GPUs is loaded")
    found = ask_child()
    if found.lack:
        log.warning("no GPU is used: %s", found.lack)
    return found


def ask_child() -> VisibleGpus:
    """Returns what a process of this module prints."""
    command = [sys.executable, *path_options(), "-m", "benchkit.visible_gpus"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return VisibleGpus(lack=f"the start of CUDA took longer than {LIMIT_S:g} s")
    last = (done.stdout.strip().splitlines() or [""])[-1]  # torch may print, too
    try:
        return msgspec.json.decode(last, type=VisibleGpus)
    except msgspec.DecodeError:
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"exit code {done.returncode}"
        return VisibleGpus(lack=f"the start of CUDA failed: {why}")


def enumerated() -> VisibleGpus:
    """Starts CUDA or HIP in this process and returns the GPUs that it shows."""
    import torch

    try:
        torch.cuda.init()
        indexes = range(torch.cuda.device_count())
        names = [name_of(torch.cuda.get_device_properties(index)) for index in indexes]
    except Exception as error:  # of many types, among them AssertionError and DeferredCudaCallError
        return VisibleGpus(lack=(str(error).strip() or type(error).__name__).splitlines()[0])
    are_told_apart = all(names) and len(set(names)) == len(names)
    return VisibleGpus(names if are_told_apart else list(map(str, indexes)))


def name_of(properties: Any) -> str:
    """Returns the UUID of a GPU as CUDA_VISIBLE_DEVICES takes it; "" where torch tells none.

    Torch tells it without its prefix. CUDA appends the size of an instance (MIG) to the name of its
    GPU: "NVIDIA A100-SXM4-40GB MIG 3g.20gb".
    """
    uuid = str(getattr(properties, "uuid", ""))
    kind = "MIG" if " MIG " in properties.name else "GPU"
    return f"{kind}-{uuid}" if uuid.strip("0-") else ""


if __name__ == "__main__":
    print(msgspec.json.encode(enumerated()).decode())
