"""Computes the reported figures from raw samples by pure functions of arrays; times in seconds."""
