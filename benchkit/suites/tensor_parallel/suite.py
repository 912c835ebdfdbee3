"""The suites tp_columnwise and tp_rowwise: C = A B with A [m, k] and B [k, n], shared out over the ranks.

Columnwise, the rows of A are shared out, B is on every rank, and every rank wants all of C: all-gather and matmul in
either order. Rowwise, the columns of A and the rows of B are shared out, and each rank wants its rows of C: matmul and
reduce-scatter or all-reduce.
"""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.tensor_parallel.config import TpColumnwiseConfig, TpRowwiseConfig
from benchkit.suites.tensor_parallel.options import expand

PRELOAD = (
    "benchkit.suites.tensor_parallel.columnwise_cases",
    "benchkit.suites.tensor_parallel.rowwise_cases",
)


@suite
def tp_columnwise(config: TpColumnwiseConfig, rank: Rank) -> list[Case]:
    """All-gather and matmul with the rows of A shared out: orders, overlap, and how near the limit they come."""
    from benchkit.suites.tensor_parallel.columnwise_cases import ColumnwiseCases

    return ColumnwiseCases(config, rank, expand(config.implementations, config.allowed)).cases()


@suite
def tp_rowwise(config: TpRowwiseConfig, rank: Rank) -> list[Case]:
    """Matmul and reduce-scatter with A's columns shared out: collectives, overlap, and how near the limit they come."""
    from benchkit.suites.tensor_parallel.rowwise_cases import RowwiseCases

    return RowwiseCases(config, rank, expand(config.implementations, config.allowed)).cases()
