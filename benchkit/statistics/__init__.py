"""Statistics of raw samples, as pure functions of arrays; times in seconds."""

SLOWEST_RANK, LAST_ARRIVAL = "slowest_rank", "last_arrival_to_last_exit"
SPAN = "first_start_to_last_exit"
"""Estimators of the time of one iteration, see `statistics.samples.Samples.times`."""
FEWEST_TURNS = 6
"""Fewest rounds of two cases whose ratio has an interval, if the ratios are uncorrelated."""
LATENCY, BACK_TO_BACK = "latency", "back_to_back"
"""LATENCY: time of one call that all ranks begin together. BACK_TO_BACK: time per call of many
consecutive ones, from which bandwidths are computed, as in nccl-tests."""
