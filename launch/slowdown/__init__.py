"""Throttles that make a process emulate a slower device: MPS shares, CPU quotas, duty cycles."""
