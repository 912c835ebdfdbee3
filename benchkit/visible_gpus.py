"""Which GPUs the ranks of this process can use, found without a context on any of them."""

import functools
import os
import re
from collections.abc import Mapping, Sequence

from benchkit.checkout import output
from benchkit.environment import static_environment, torch_build

MIG = "MIG-"
"""How the UUIDs of the instances begin that a GPU is divided into."""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNIQUE_ID = re.compile(r"Unique ID:\s*(0x[0-9a-f]+)")


def visible_gpus() -> list[str]:
    """Returns the GPUs that CUDA or HIP can use in this process.

    They are named by UUID where a tool of their vendor lists them, by index elsewhere.
    """
    usable = num_usable_gpus()
    if not usable:
        return []
    names = [str(index) for index in range(usable)]
    if torch_build().get("hip"):
        return visible_amd_gpus(amd_uuids() or names)[:usable]
    uuids = [gpu["uuid"] for gpu in static_environment().gpus]
    names = chosen("CUDA_VISIBLE_DEVICES", uuids or names)
    return instance_of(names, mig_instances() if uuids else {}) or names[:usable]


def num_usable_gpus() -> int:
    """Returns how many GPUs torch can use here; imports torch only where it is built for GPUs.

    NVML counts them where it can, and knows nothing of instances (MIG).
    """
    if not (torch_build()["cuda"] or torch_build().get("hip")):
        return 0
    import torch

    return int(torch.cuda.device_count())


def visible_amd_gpus(installed: Sequence[str]) -> list[str]:
    """Returns the GPUs that HIP shows: its own variable chooses among those of the runtime below.

    HIP reads CUDA's variable where its own is not set.
    """
    own = "HIP_VISIBLE_DEVICES" if os.environ.get("HIP_VISIBLE_DEVICES") else "CUDA_VISIBLE_DEVICES"
    return chosen(own, chosen("ROCR_VISIBLE_DEVICES", installed))


def chosen(variable: str, installed: Sequence[str]) -> list[str]:
    """Returns the GPUs that an environment variable names; all if it names none."""
    names = [name.strip() for name in os.environ.get(variable, "").split(",")]
    return [gpu_named(name, installed) for name in names if name] or list(installed)


def gpu_named(name: str, installed: Sequence[str]) -> str:
    """Returns the installed GPU at the index that `name` holds; any other name as it is."""
    is_index = name.isdigit() and int(name) < len(installed)
    return installed[int(name)] if is_index else name


def instance_of(names: Sequence[str], instances: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the one instance (MIG) that CUDA shows, in a list; [] if no GPU is divided.

    CUDA shows a process the first instance alone, and no whole GPU beside it.

    Args:
        names: UUIDs of GPUs or of instances.
        instances: UUIDs of the instances of each GPU.
    """
    found: list[str] = []
    for name in names:
        found += [name] if name.startswith(MIG) else instances.get(name, ())
    return found[:1]


@functools.cache
def mig_instances() -> dict[str, list[str]]:
    """Returns the UUIDs of the instances of each NVIDIA GPU, by its UUID."""
    found: dict[str, list[str]] = {}
    gpu = ""
    for uuid in re.findall(r"\(UUID: ([^)]+)\)", output("nvidia-smi", "-L")):
        if uuid.startswith(MIG):
            found.setdefault(gpu, []).append(uuid)
        else:
            gpu = uuid
    return found


@functools.cache
def amd_uuids() -> list[str]:
    """Returns what tells AMD's GPUs apart; [] without a tool, or where parts of a GPU are alike."""
    found = UUID.findall(output("amd-smi", "list"))
    found = found or UNIQUE_ID.findall(output("rocm-smi", "--showuniqueid"))
    return found if len(set(found)) == len(found) else []
