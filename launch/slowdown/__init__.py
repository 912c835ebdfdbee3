"""Slows a process down to stand for a slower one: MPS shares, CPU quotas, duty cycles."""
