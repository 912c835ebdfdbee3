"""The verdict of an acceptance, on pairs of ranks and on ranks alone."""
