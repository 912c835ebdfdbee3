"""The matrix of pairs of ranks, and the faults in it."""
