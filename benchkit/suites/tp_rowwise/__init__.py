"""Matmul and reduce-scatter, and each part alone."""
