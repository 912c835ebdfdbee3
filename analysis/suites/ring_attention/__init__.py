"""Splits of a sequence compared."""
