"""The suites tp_columnwise and tp_rowwise: C = A B with A [m, k] and B [k, n] split over ranks.

Columnwise, the rows of A are sharded, B is on every rank, and every rank needs all of C: all-gather
and matmul in either order. Rowwise, the columns of A and the rows of B are sharded, and each rank
needs its rows of C: matmul and reduce-scatter or all-reduce.
"""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.tensor_parallel.config import (
    TpColumnwiseConfig,
    TpRowwiseConfig,
    expand,
    layer_columns,
    layer_rows,
)

RESOLVERS = {"layer_rows": layer_rows, "layer_columns": layer_columns}
PRELOAD = (
    "benchkit.suites.tensor_parallel.columnwise",
    "benchkit.suites.tensor_parallel.rowwise",
)


@suite
def tp_columnwise(config: TpColumnwiseConfig, rank: Rank) -> list[Case]:
    """All-gather and matmul with A's rows sharded: orders, overlap, and the gap to the limit."""
    from benchkit.suites.tensor_parallel.columnwise import ColumnwiseCases

    chosen = expand(config.implementations, config.allowed)
    return ColumnwiseCases(config, rank, chosen).cases()


@suite
def tp_rowwise(config: TpRowwiseConfig, rank: Rank) -> list[Case]:
    """Matmul and reduce-scatter with A's columns sharded: overlap, and the gap to the limit."""
    from benchkit.suites.tensor_parallel.rowwise import RowwiseCases

    chosen = expand(config.implementations, config.allowed)
    return RowwiseCases(config, rank, chosen).cases()
