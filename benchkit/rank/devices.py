"""What a rank tells of its device and of torch's settings, for the record."""

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch

from benchkit.api.gather import gather_json
from benchkit.gpus import numa, nvml
from benchkit.rank.control_group import ControlGroup
from benchkit.record.devices import RankDevice, TorchSettings

RECORDER_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""Variables with the length of torch's flight recorder, 0 for none; the first one that is set."""


@dataclass(frozen=True)
class Devices:
    """The devices of all ranks, and the GPU of this one.

    Attributes:
        of_ranks: one per rank.
        gpu: of this rank as NVML sees it; None without.
        pids: process ids of all ranks, and of idle ones.
        num_processes: number of our processes on this rank's GPU: ranks, idle ones, MPS server.
        is_unread: whether this rank has a GPU of NVIDIA whose state nothing tells.
    """

    of_ranks: list[RankDevice]
    gpu: nvml.Gpu | None = None
    pids: set[int] = field(default_factory=set)
    num_processes: int = 1
    is_unread: bool = False


def gather_devices(
    device: torch.device, group: ControlGroup, idle_pids: Sequence[int] = (), by_mps: bool = False
) -> Devices:
    """Returns the devices of all ranks; all ranks call this together.

    Args:
        device: of this rank.
        group: the control channel.
        idle_pids: of ranks that wait for their next point and may hold memory meanwhile; they have
            the places of these ranks.
        by_mps: whether the ranks are clients of MPS.
    """
    found, gpu = describe_device(device)
    gathered = gather_json([msgspec.to_builtins(found), [os.getpid(), *idle_pids]], group.handle)
    devices = [msgspec.convert(each, RankDevice) for each, _ in gathered]
    pids = itertools.chain.from_iterable(of_rank for _, of_rank in gathered)
    sharers = sum(each.uuid == found.uuid for each in devices)
    num_processes = sharers * (2 if idle_pids else 1) + by_mps
    is_unread = device.type == "cuda" and gpu is None and torch.version.hip is None
    return Devices(devices, gpu, set(pids), num_processes, is_unread)


def describe_device(device: torch.device) -> tuple[RankDevice, nvml.Gpu | None]:
    """Returns this rank's device, and its GPU as NVML sees it."""
    nodes = numa.nodes_of_cores(os.sched_getaffinity(0))
    if device.type != "cuda":
        return RankDevice(device=str(device), numa_nodes=nodes), None
    properties = torch.cuda.get_device_properties(device)
    uuid = str(getattr(properties, "uuid", "")) or None
    gpu = nvml.open_gpu(uuid) if uuid else None
    pci = pci_address(properties) or (gpu.pci() if gpu else None)
    return RankDevice(
        device=str(device),
        numa_nodes=nodes,
        name=properties.name,
        uuid=gpu.uuid if gpu else uuid,
        pci=pci,
        numa_node=numa.node_of_pci(pci or ""),
        multiprocessors=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        nccl=known(lambda: ".".join(map(str, torch.cuda.nccl.version()))),
    ), gpu


def pci_address(properties: Any) -> str | None:
    """Returns the address of a GPU; None where torch is older than 2.8 and does not tell."""
    try:
        domain, bus = properties.pci_domain_id, properties.pci_bus_id
        return f"{domain:04x}:{bus:02x}:{properties.pci_device_id:02x}.0"
    except AttributeError:
        return None


def torch_settings(environment: Mapping[str, str] = os.environ) -> TorchSettings:
    """Returns torch's settings of precision, and the length of its flight recorder.

    A value is None where torch does not tell: it refuses to by one of its two sets of names for
    precision if the other set was used.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    sizes = (environment.get(name, "") for name in RECORDER_SIZES)
    size = next(filter(None, sizes), "")
    return {
        "float32_matmul_precision": known(torch.get_float32_matmul_precision),
        "allow_tf32": known(lambda: matmul.allow_tf32),
        "cudnn_allow_tf32": known(lambda: cudnn.allow_tf32),
        "bf16_reduced_precision_reduction": known(
            lambda: matmul.allow_bf16_reduced_precision_reduction
        ),
        "fp16_reduced_precision_reduction": known(
            lambda: matmul.allow_fp16_reduced_precision_reduction
        ),
        "flight_recorder_entries": int(size) if size.isdecimal() else None,
    }


def known(ask: Callable[[], Any]) -> Any:
    """Returns what torch answers; None where this build or its settings do not allow it."""
    try:
        return ask()
    except (AttributeError, RuntimeError):
        return None
