"""Messages between every pair of ranks in both directions, over rounds of disjoint pairs."""
