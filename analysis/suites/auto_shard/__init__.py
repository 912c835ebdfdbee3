"""Speedup, phases and scaling of auto_shard."""
