"""Names of what a time is, which cases carry and analysis reads."""

SLOWEST_RANK, LAST_ARRIVAL = "slowest_rank", "last_arrival_to_last_exit"
"""The time of one iteration, of the times that its ranks took: see `statistics.iteration_times`."""
LATENCY, BACK_TO_BACK = "latency", "back_to_back"
"""Two questions about a short call: how long one takes that all ranks begin together, and how long
each of many takes that follow one another, which is what bandwidths are of (as in nccl-tests)."""
