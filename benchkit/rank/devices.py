"""Devices of ranks: properties, clocks, power, warnings; torch's settings."""

import contextlib
import itertools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import torch

from benchkit import gpus
from benchkit.api.case import Case
from benchkit.api.p2p import all_gather_json
from benchkit.measure.timer import AllGather, all_gather_named
from benchkit.rank.backends import ControlGroup
from benchkit.record.record import (
    BUSY_MHZ,
    CLOCK_REASONS,
    CLOCK_SETTING,
    GPU_FIELDS,
    GPU_READINGS,
    THROTTLE_REASONS,
    RankDevice,
    TorchSettings,
)
from launch.host import affinity_cores

RECORDER_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""Variables with the length of torch's flight recorder, 0 for none; the first one set counts."""


@dataclass(frozen=True)
class Devices:
    """The devices of all ranks, and the GPU of this one.

    Attributes:
        gpu: NVML handle of this rank's GPU.
        pids: process ids of all ranks, idle ones included.
        num_processes: our processes on this rank's GPU: ranks, idle ones, MPS server.
        bound_to: cores of its GPU's NUMA node, if this rank is bound to them; else none.
        is_unread: whether this rank has an NVIDIA GPU whose state cannot be read.
    """

    of_ranks: list[RankDevice]
    gpu: gpus.Gpu | None = None
    pids: set[int] = field(default_factory=set)
    num_processes: int = 1
    bound_to: list[int] = field(default_factory=list)
    is_unread: bool = False


def all_gather_devices(
    device: torch.device,
    group: ControlGroup,
    host: str = "",
    idle_pids: Sequence[int] = (),
    by_mps: bool = False,
) -> Devices:
    """Return the devices of all ranks; all ranks call this together.

    `host` is the name of this rank's host. `idle_pids` are the processes of idle ranks in the same
    places, which may hold memory.
    """
    own_device, gpu = describe_device(device)
    bound_to = bind_to_numa_node(own_device.numa_node, host, group) if device.type == "cuda" else []
    if bound_to:
        own_device = replace(own_device, numa_nodes=gpus.nodes_of_cores(bound_to))
    gathered = all_gather_json(
        [msgspec.to_builtins(own_device), [os.getpid(), *idle_pids]], group.handle
    )
    devices = [msgspec.convert(other, RankDevice) for other, _ in gathered]
    pids = itertools.chain.from_iterable(rank_pids for _, rank_pids in gathered)
    sharers = sum(other.uuid == own_device.uuid for other in devices)
    num_processes = sharers * (2 if idle_pids else 1) + by_mps
    is_unread = device.type == "cuda" and gpu is None and torch.version.hip is None
    return Devices(devices, gpu, set(pids), num_processes, bound_to, is_unread)


def bind_to_numa_node(node: int | None, host: str, group: ControlGroup) -> list[int]:
    """Bind this rank to the cores of its GPU's NUMA node; all ranks call this together.

    Return these cores; none if the node has fewer cores than threads of its ranks. Copies from and
    to the host take up to twice as long from another node.
    """
    cores = set() if node is None else gpus.cores_of_node(node).intersection(affinity_cores())
    ranks = all_gather_json([host, sorted(cores)], group.handle)
    sharers = sum(
        other_host == host and not cores.isdisjoint(other_cores)
        for other_host, other_cores in ranks
    )
    if not cores or len(cores) < sharers * torch.get_num_threads():
        return []
    try:
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), cores)
    except OSError:  # no /proc, or refused
        return []
    return sorted(cores)


def describe_device(device: torch.device) -> tuple[RankDevice, gpus.Gpu | None]:
    nodes = gpus.nodes_of_cores(affinity_cores())
    if device.type != "cuda":
        return RankDevice(device=str(device), numa_nodes=nodes), None
    properties = torch.cuda.get_device_properties(device)
    uuid = str(getattr(properties, "uuid", "")) or None
    gpu = gpus.open_gpu(uuid) if uuid else None
    pci = pci_address(properties) or (gpu.pci() if gpu else None)
    return RankDevice(
        device=str(device),
        numa_nodes=nodes,
        name=properties.name,
        uuid=gpu.uuid if gpu else uuid,
        pci=pci,
        numa_node=gpus.node_of_pci(pci or ""),
        multiprocessors=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
        nccl=value_or_none(lambda: ".".join(map(str, torch.cuda.nccl.version()))),
    ), gpu


def pci_address(properties: Any) -> str | None:
    """Return the PCI address of a GPU; None before torch 2.8."""
    try:
        domain, bus = properties.pci_domain_id, properties.pci_bus_id
        return f"{domain:04x}:{bus:02x}:{properties.pci_device_id:02x}.0"
    except AttributeError:
        return None


def torch_settings(environment: Mapping[str, str] = os.environ) -> TorchSettings:
    """Return torch's precision settings, and the length of its flight recorder.

    A value is None if torch refuses to report it: of its two sets of names for precision, one
    raises after the other was used.
    """
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    sizes = (environment.get(name, "") for name in RECORDER_SIZES)
    size = next(filter(None, sizes), "")
    return {
        "float32_matmul_precision": value_or_none(torch.get_float32_matmul_precision),
        "allow_tf32": value_or_none(lambda: matmul.allow_tf32),
        "cudnn_allow_tf32": value_or_none(lambda: cudnn.allow_tf32),
        "bf16_reduced_precision_reduction": value_or_none(
            lambda: matmul.allow_bf16_reduced_precision_reduction
        ),
        "fp16_reduced_precision_reduction": value_or_none(
            lambda: matmul.allow_fp16_reduced_precision_reduction
        ),
        "flight_recorder_entries": int(size) if size.isdecimal() else None,
    }


def value_or_none(read: Callable[[], Any]) -> Any:
    """Return a value of torch; None if this build or its settings do not provide it."""
    try:
        return read()
    except (AttributeError, RuntimeError):
        return None


TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""Environment variable of NVIDIA's libraries that overrides torch's settings."""


def set_up_torch(threads: int, stated: Mapping[str, str]) -> None:
    """Set the number of CPU threads, and full precision for float32 products.

    A suite that measures TF32 enables it later. Precision is set explicitly, because
    TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1, which NVIDIA's images set, changes torch's default to TF32.
    An inherited TF32_OVERRIDE is removed before a library of NVIDIA's reads it, unless it is among
    the variables of the configuration, `stated`.
    """
    if TF32_OVERRIDE not in stated:
        os.environ.pop(TF32_OVERRIDE, None)
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")


@dataclass(frozen=True)
class GpuObservations:
    """Observations of one rank's GPU while cases were timed.

    Attributes:
        is_unread: whether it is an NVIDIA GPU whose state cannot be read.
        strangers: number of foreign processes on it.
        reasons: bits of its clock reasons (benchkit/record/record.py): [case].
        sm_mhz: lowest clock under load, 0 if unknown: [case].
    """

    is_unread: bool = False
    strangers: int = 0
    reasons: list[int] = field(default_factory=list)
    sm_mhz: list[float] = field(default_factory=list)

    def has_reason(self, bit: int) -> bool:
        return any(reasons & bit for reasons in self.reasons)


def gpu_warnings(observations: Sequence[GpuObservations]) -> list[str]:
    """Return the warnings of a point from the observations of each rank's GPU: [rank]."""
    unknown = [rank for rank, gpu in enumerate(observations) if gpu.is_unread]
    shared = [rank for rank, gpu in enumerate(observations) if gpu.strangers]
    lines = []
    if unknown:
        lines.append(
            f"clocks, power and throttling of the GPU of {format_ranks(unknown)} are not known: "
            "nvidia-ml-py is not installed, or the driver has no NVML"
        )
    if shared:
        largest = max(observations[rank].strangers for rank in shared)
        processes = "1 other process" if largest == 1 else f"up to {largest} other processes"
        lines.append(f"{processes} computed on the GPU of {format_ranks(shared)}")
    return [*lines, *throttle_warnings(observations), *clock_warnings(observations)]


def throttle_warnings(observations: Sequence[GpuObservations]) -> list[str]:
    """Return a line on throttled clocks, if any were."""
    clauses = []
    for bit, reason in THROTTLE_REASONS.items():
        throttled = [rank for rank, gpu in enumerate(observations) if gpu.has_reason(bit)]
        if throttled:
            clauses.append(f"{reason} ({format_ranks(throttled)})")
    return [f"GPU clocks were held back: {'; '.join(clauses)}"] if clauses else []


def clock_warnings(observations: Sequence[GpuObservations]) -> list[str]:
    """Return a line on clocks that moved, without a limit by a setting, if any did."""
    clocks = {
        rank: [mhz for mhz in gpu.sm_mhz if mhz]
        for rank, gpu in enumerate(observations)
        if any(gpu.sm_mhz) and not gpu.has_reason(CLOCK_SETTING)
    }
    moved = [rank for rank, mhz in clocks.items() if max(mhz) > STEADY * min(mhz)]
    if not moved:
        return []
    lowest = min(min(clocks[rank]) for rank in moved)
    highest = max(max(clocks[rank]) for rank in moved)
    return [
        f"GPU clocks moved from case to case ({format_ranks(moved)}): SM at {lowest:.0f} to "
        f"{highest:.0f} MHz; nvidia-smi -lgc locks them"
    ]


def format_ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


STEADY = 1.02
"""Clocks are steady if the highest is within this multiple of the lowest."""
FRESH_S = 0.1
"""Age up to which a reading is reused: NVML updates its values no more often."""
SM_MHZ, POWER_W = GPU_READINGS.index("sm_mhz"), GPU_READINGS.index("power_w")


@dataclass
class GpuWatch:
    """Readings of this rank's GPU around the blocks of each case, and during them.

    `warnings` are complete after end().
    """

    devices: Devices
    now: Callable[[], float] = time.monotonic
    warnings: list[str] = field(default_factory=list)
    _before: dict[Case, list[float]] = field(default_factory=dict)
    _after: dict[Case, list[float]] = field(default_factory=dict)
    _busy: dict[Case, list[float]] = field(default_factory=dict)
    _reasons: dict[Case, int] = field(default_factory=dict)
    _running: Case | None = None
    _last: tuple[float, list[float]] = (float("-inf"), [])
    _last_busy: float = float("-inf")
    _strangers: int = 0

    def switch_case(self, case: Case | None) -> None:
        """Take the reading after the blocks of the current case and before those of the next."""
        gpu = self.devices.gpu
        if gpu is None:
            return
        if case is None or not self._before:  # before the first case and after the last one
            num_foreign = gpu.num_foreign_processes(self.devices.pids, self.devices.num_processes)
            self._strangers = max(self._strangers, num_foreign)
        read_at, values = self._last
        if self.now() - read_at >= FRESH_S:
            values = gpu.reading()
            self._last = (self.now(), values)
        *state, reasons = values
        if self._running is not None:
            self._after[self._running] = state
            self._add_reasons(int(reasons))
        if case is not None:
            self._before.setdefault(case, state)
        self._running = case

    def while_busy(self) -> None:
        gpu = self.devices.gpu
        if gpu is None or self._running is None or self.now() - self._last_busy < FRESH_S:
            return
        *state, reasons = gpu.reading()
        self._last_busy = self.now()
        mhz, watts = self._busy.get(self._running, [math.inf, 0.0])
        self._busy[self._running] = [min(mhz, state[SM_MHZ]), max(watts, state[POWER_W])]
        self._add_reasons(int(reasons))

    def _add_reasons(self, bits: int) -> None:
        assert self._running is not None
        self._reasons[self._running] = self._reasons.get(self._running, 0) | bits

    def end(self, cases: Sequence[Case], all_gather: AllGather) -> list[dict[str, list[float]]]:
        """Take the last reading; all ranks call this together.

        Return GPU_FIELDS of each case with one number per rank, 0 if unknown; {} if all are.
        """
        self.switch_case(None)
        all_ranks = all_gather_named(
            all_gather,
            own=[self.devices.is_unread, self._strangers],
            **{str(number): self._values(case) for number, case in enumerate(cases)},
        )
        states = [transpose_by_field(all_ranks[str(number)]) for number in range(len(cases))]
        known_states = [state for state in states if state]
        self.warnings = gpu_warnings(
            [
                GpuObservations(
                    is_unread=bool(is_unread),
                    strangers=int(strangers),
                    reasons=[int(state[CLOCK_REASONS][rank]) for state in known_states],
                    sm_mhz=[state[BUSY_MHZ][rank] for state in known_states],
                )
                for rank, (is_unread, strangers) in enumerate(all_ranks["own"])
            ]
        )
        return states

    def _values(self, case: Case) -> list[float]:
        unknown = [0.0] * len(GPU_READINGS)
        before, after = (readings.get(case, unknown) for readings in (self._before, self._after))
        busy = self._busy.get(case, [0.0, 0.0])
        return [*before, *after, *busy, float(self._reasons.get(case, 0))]


def transpose_by_field(table: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    """Transpose a case's readings: [rank][field] to [rank] by field; {} if all are 0."""
    if not any(map(any, table)):
        return {}
    return dict(zip(GPU_FIELDS, map(list, zip(*table, strict=True)), strict=True))
