"""Names in records of collective, which the suite writes and its analysis reads."""

TIMING = "timing"
"""Label of a case: LATENCY or BACK_TO_BACK of benchkit.statistics.estimators."""
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
BROADCAST, REDUCE, GATHER, SCATTER = "broadcast", "reduce", "gather", "scatter"
ALL_TO_ALL, SEND_RECV, BARRIER = "all_to_all", "send_recv", "barrier"
COLLECTIVES = (
    ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL,
    SEND_RECV, BARRIER,
)  # fmt: skip
"""Values of the key `collective`."""
REDUCTIONS = (ALL_REDUCE, REDUCE_SCATTER, REDUCE)
SHARED_OUT = (ALL_GATHER, REDUCE_SCATTER, GATHER, SCATTER, ALL_TO_ALL)
"""Collectives whose payload has one part per rank."""
RAGGED = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)
"""Collectives for which torch supports parts of different sizes."""
