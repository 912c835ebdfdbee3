"""All-gather and matmul, and each part alone."""
