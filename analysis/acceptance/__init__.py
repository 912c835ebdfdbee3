"""The verdict of an acceptance, on pairs of ranks and on single ranks."""
