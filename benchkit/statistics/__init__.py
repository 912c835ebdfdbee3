"""Statistics of raw samples, as pure functions of arrays; times in seconds."""

SLOWEST_RANK, LAST_ARRIVAL = "slowest_rank", "last_arrival_to_last_exit"
SPAN = "first_start_to_last_exit"
"""Estimators of the time of one iteration, see `statistics.samples.Samples.times`."""
FEWEST_TURNS = 6
"""Fewest turns of two cases whose ratio has an interval, if both are steady."""
LATENCY, BACK_TO_BACK = "latency", "back_to_back"
"""LATENCY: how long a call takes that all ranks begin together. BACK_TO_BACK: how long each of many
calls in a row takes, from which bandwidths are computed, as in nccl-tests."""
