"""Matmul and reduce-scatter, and each part by itself."""
