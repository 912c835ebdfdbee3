"""The suite tp_columnwise: C = A B with the rows of A sharded and B on every rank.

Every rank needs all of C: all-gather and matmul in either order.
"""

from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.case import Case, Rank
from benchkit.api.keys import ModelConfig, layer_shape
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import product_bytes
from benchkit.errors import ConfigError
from benchkit.suites.tensor_parallel.config import (
    AUTO,
    BACKENDS,
    CHUNKS,
    COMM_ONLY,
    COMPUTE_ONLY,
    ORDER,
    ORDERS,
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
class TpColumnwiseConfig(TensorParallelConfig):
    allowed: ClassVar[Allowed] = {
        COMPUTE_ONLY: {SIZE: ("sharded", "unsharded")},
        COMM_ONLY: {ORDER: ORDERS, "backend": BACKENDS},
        P2P_COMM_ONLY: {ORDER: ORDERS, "backend": BACKENDS},
        PYTORCH: {ORDER: ORDERS, "backend": BACKENDS},
        "pipeline": {ORDER: ORDERS, CHUNKS: int, "backend": BACKENDS},
        "p2p_pipeline": {ORDER: ORDERS, CHUNKS: int, "backend": BACKENDS},
        "symmetric_memory": {},
        AUTO: {"backend": BACKENDS},
    }

    def product_of(self, model: ModelConfig, layer: str) -> tuple[int, int]:
        """Return k and n of a column-parallel layer, whose columns are shared out."""
        rows, columns = layer_shape(model, layer)
        given = f"world_size={self.world_size}: layer={layer} of model={model.name}"
        if not isinstance(self.world_size, int):
            allowed = "allowed is a number, such as world_size=2"
            raise ConfigError(f"{given} shares its columns out; {allowed}")
        if columns % self.world_size:
            raise ConfigError(
                f"{given} has {columns} columns; allowed are numbers that divide them"
            )
        return rows, columns // self.world_size

    def operand_bytes(self, world_size: int, needs_whole: bool) -> tuple[int, int]:
        m, n, k = self.shape
        most = -(-m // world_size)
        factors = most * k + k * n + (m * k if needs_whole else 0)
        gathered = [((world_size + 3) * most * k, 0), (0, (world_size + 1) * most * n)]
        scratch_bytes = max(product_bytes(self.dtype, *elements) for elements in gathered)
        return product_bytes(self.dtype, factors, m * n), scratch_bytes


CASES = "benchkit.suites.tp_columnwise.cases"
PRELOAD = (CASES,)
RESOLVERS = {"layer_rows": layer_rows, "layer_columns": layer_columns}
QUESTION = question({ORDER: "AG_before"})


@suite
def tp_columnwise(config: TpColumnwiseConfig, rank: Rank) -> list[Case]:
    """All-gather and matmul with A's rows sharded, by implementation."""
    return cases_in(CASES, config, rank)
