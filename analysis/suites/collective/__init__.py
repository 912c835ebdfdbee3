"""Fits of latency and bandwidth, and results of other tools, for collectives."""
