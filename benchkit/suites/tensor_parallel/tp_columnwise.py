"""Columnwise tensor-parallel product: all-gather and matmul in either order, one after the other or overlapped.

A [m, k] has its rows shared out, B [k, n] is on every rank, and every rank wants C = A B.
"""

from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.tensor_parallel.config import BACKENDS, TensorParallelConfig
from benchkit.suites.tensor_parallel.options import Allowed, expand

PRELOAD = ("benchkit.suites.tensor_parallel.columnwise_cases",)
ORDERS = ("AG_before", "AG_after")


@dataclass
class TpColumnwiseConfig(TensorParallelConfig):
    allowed: ClassVar[Allowed] = {
        "compute_only": {"size": ("sharded", "unsharded")},
        "comm_only": {"order": ORDERS, "backend": BACKENDS},
        "p2p_comm_only": {"order": ORDERS, "backend": BACKENDS},
        "pytorch": {"order": ORDERS, "backend": BACKENDS},
        "pipeline": {"order": ORDERS, "chunks": int, "backend": BACKENDS},
        "p2p_pipeline": {"order": ORDERS, "chunks": int, "backend": BACKENDS},
        "symmetric_memory": {},
        "auto": {"backend": BACKENDS},
    }


@suite
def tp_columnwise(config: TpColumnwiseConfig, rank: Rank) -> list[Case]:
    """All-gather and matmul with the rows of A shared out: orders, overlap, and how near the limit they come."""
    from benchkit.suites.tensor_parallel.columnwise_cases import ColumnwiseCases

    return ColumnwiseCases(config, rank, expand(config.implementations, config.allowed)).cases()
