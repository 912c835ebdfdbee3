"""Rowwise tensor-parallel product: matmul and reduce-scatter or all-reduce, one after the other or overlapped.

A [m, k] has its columns shared out and B [k, n] its rows; each rank wants its rows of C = A B.
"""

from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.tensor_parallel.config import BACKENDS, TensorParallelConfig
from benchkit.suites.tensor_parallel.options import Allowed, expand

PRELOAD = ("benchkit.suites.tensor_parallel.rowwise_cases",)
COLLECTIVES = ("reduce_scatter", "all_reduce")


@dataclass
class TpRowwiseConfig(TensorParallelConfig):
    allowed: ClassVar[Allowed] = {
        "compute_only": {"size": ("sharded", "unsharded")},
        "comm_only": {"collective": COLLECTIVES, "backend": BACKENDS},
        "p2p_comm_only": {"backend": BACKENDS},
        "pytorch": {"collective": COLLECTIVES, "backend": BACKENDS},
        "pipeline": {"chunks": int, "backend": BACKENDS},
        "p2p_pipeline": {"chunks": int, "backend": BACKENDS},
        "auto": {"backend": BACKENDS},
    }


@suite
def tp_rowwise(config: TpRowwiseConfig, rank: Rank) -> list[Case]:
    """Matmul and reduce-scatter with A's columns shared out: collectives, overlap, and how near the limit they come."""
    from benchkit.suites.tensor_parallel.rowwise_cases import RowwiseCases

    return RowwiseCases(config, rank, expand(config.implementations, config.allowed)).cases()
