"""What the time of one iteration is, of the times that its ranks took: see `statistics.iteration_times`."""

SLOWEST_RANK = "slowest_rank"
LAST_ARRIVAL = "last_arrival_to_last_exit"
