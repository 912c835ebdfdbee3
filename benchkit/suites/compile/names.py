"""Names in records of compile, which the suite writes and its analysis reads."""

EAGER, AOT_EAGER, CUDA_GRAPH = "eager", "aot_eager", "cuda_graph"
DEFAULT, REDUCE_OVERHEAD, MAX_AUTOTUNE = "default", "reduce-overhead", "max-autotune"
INDUCTOR = (DEFAULT, REDUCE_OVERHEAD, MAX_AUTOTUNE)
"""Modes of torch.compile with its backend inductor, the only one with a cache on disk."""
COMPILERS = (EAGER, AOT_EAGER, *INDUCTOR, CUDA_GRAPH)
"""Values of the key `compiler`."""
COMPILER, CACHE, DYNAMIC = "compiler", "cache", "dynamic"
"""Keys in which a case differs from the eager one that it is compared with."""
BATCH_SIZES = "batch_sizes"
"""Label of a case: the values of that key, joined by commas."""
COLD, WARM = "cold", "warm"
"""Values of the key `cache`."""
MATMUL_CHAIN, MLP, POINTWISE, BRANCHING = "matmul_chain", "mlp", "pointwise", "branching"
TRANSFORMER_LAYER = "transformer_layer"
WORKLOADS = (MATMUL_CHAIN, MLP, POINTWISE, BRANCHING, TRANSFORMER_LAYER)
"""Values of the key `workload`."""
COMPILE_S, RECOMPILE_S = "compile_s", "recompile_s"
"""Details: seconds of compilation within the first call, and within all later calls, as torch
counts them, of the rank where they are longest. They are absent where nothing counts them."""
GRAPHS, GRAPH_BREAKS, RECOMPILATIONS = "graphs", "graph_breaks", "recompilations"
CACHE_HITS, CACHE_MISSES = "cache_hits", "cache_misses"
"""Details: numbers of rank 0; hits and misses are those of inductor's cache on disk."""
COMPILED_AT = "compiled_at_calls"
"""Detail: the calls that compiled, from 1, as text."""
CALLS_PER_SIZE = "calls_per_size"
"""Detail: the calls of each but the last of `batch_sizes`, which has the rest."""
