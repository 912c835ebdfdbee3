"""The suite tp_rowwise: C = A B with the columns of A and the rows of B sharded.

Each rank needs its rows of C: matmul and reduce-scatter or all-reduce.
"""

from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.case import Case, Rank
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import product_bytes
from benchkit.suites.tensor_parallel.config import (
    AUTO,
    BACKENDS,
    CHUNKS,
    COLLECTIVE,
    COLLECTIVES,
    COMM_ONLY,
    COMPUTE_ONLY,
    P2P_COMM_ONLY,
    PYTORCH,
    SIZE,
    Allowed,
    TensorParallelConfig,
    layer_columns,
    layer_rows,
    question,
)


@dataclass
class TpRowwiseConfig(TensorParallelConfig):
    allowed: ClassVar[Allowed] = {
        COMPUTE_ONLY: {SIZE: ("sharded", "unsharded")},
        COMM_ONLY: {COLLECTIVE: COLLECTIVES, "backend": BACKENDS},
        P2P_COMM_ONLY: {"backend": BACKENDS},
        PYTORCH: {COLLECTIVE: COLLECTIVES, "backend": BACKENDS},
        "pipeline": {CHUNKS: int, "backend": BACKENDS},
        "p2p_pipeline": {CHUNKS: int, "backend": BACKENDS},
        AUTO: {"backend": BACKENDS},
    }

    def operand_bytes(self, world_size: int, needs_whole: bool) -> tuple[int, int]:
        m, n, k = self.shape
        most, width = -(-m // world_size), -(-k // world_size)
        factors, products = world_size * most * width + width * n, most * n
        if needs_whole:
            factors, products = factors + m * k + k * n, products + m * n
        scratch_bytes = product_bytes(self.dtype, 0, (world_size + 4) * most * n)
        return product_bytes(self.dtype, factors, products), scratch_bytes


CASES = "benchkit.suites.tp_rowwise.cases"
PRELOAD = (CASES,)
RESOLVERS = {"layer_rows": layer_rows, "layer_columns": layer_columns}
QUESTION = question({COLLECTIVE: "reduce_scatter"})


@suite
def tp_rowwise(config: TpRowwiseConfig, rank: Rank) -> list[Case]:
    """Matmul and reduce-scatter with A's columns sharded, by implementation."""
    return cases_in(CASES, config, rank)
