"""All-gather and matmul, and each part by itself."""
