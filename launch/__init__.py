"""Starts ranks, watches them and ends them. Knows nothing about benchmarks."""
