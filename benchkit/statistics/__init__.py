"""Computes the reported figures from raw samples by pure functions of arrays; times in seconds."""

SLOWEST_RANK, LAST_ARRIVAL = "slowest_rank", "last_arrival_to_last_exit"
SPAN = "first_start_to_last_exit"
"""Estimators of the time of one iteration from the times of its ranks, see
`statistics.summary.iteration_times`."""
LATENCY, BACK_TO_BACK = "latency", "back_to_back"
"""Two questions about a short call. LATENCY: how long one call takes that all ranks begin together.
BACK_TO_BACK: how long each of many calls takes that follow one another, from which bandwidths are
computed, as in nccl-tests."""
