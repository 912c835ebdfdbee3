"""Ring attention over ranks of unequal speed, by several splits of the sequence."""
