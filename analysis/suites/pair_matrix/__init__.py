"""The matrix of pairs of ranks, and what is slow in it."""
