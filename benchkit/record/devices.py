"""The device of each rank as the record stores it."""

from dataclasses import dataclass, field

from benchkit.record.numbers import Count, NumBytes, Position

TorchSettings = dict[str, bool | int | str | None]
"""Settings of torch by name; None where torch does not tell."""


@dataclass(frozen=True, kw_only=True)
class RankDevice:
    """Where one rank computes; None where it is not known, or where there is no GPU.

    Attributes:
        device: as torch names it, such as "cuda:0".
        numa_nodes: NUMA nodes of the cores that the rank may use.
        name: of its GPU.
        uuid: of its GPU, or of the MIG instance.
        pci: address of its GPU.
        numa_node: NUMA node of its GPU.
        multiprocessors: that it may use, fewer with a share of the GPU by MPS.
        memory_bytes: of its GPU.
        nccl: version of the NCCL, or RCCL, that its torch has loaded.
    """

    device: str
    numa_nodes: list[Position] = field(default_factory=list)
    name: str | None = None
    uuid: str | None = None
    pci: str | None = None
    numa_node: Position | None = None
    multiprocessors: Count | None = None
    memory_bytes: NumBytes | None = None
    nccl: str | None = None
