"""Makes a process slower than its machine, to stand for one of unequal speed: MPS shares, CPU quotas, duty cycles."""
