"""Names in records of tp_columnwise and tp_rowwise, which they write and their analysis reads."""

IMPLEMENTATION, SIZE, ORDER = "implementation", "size", "order"
COLLECTIVE, CHUNKS, COMM_BACKEND = "collective", "chunks", "comm_backend"
"""Labels of a case: how the product is computed, and the options of that."""
COMPUTE_ONLY, COMM_ONLY, P2P_COMM_ONLY = "compute_only", "comm_only", "p2p_comm_only"
BOUNDS = (COMPUTE_ONLY, COMM_ONLY, P2P_COMM_ONLY)
"""Values of IMPLEMENTATION that time one component in isolation."""
PYTORCH, AUTO = "pytorch", "auto"
"""Values of IMPLEMENTATION: one component after the other, and what a cost model chooses."""
DEFAULT = "default"
"""The value of COMM_BACKEND that stands for the job's backend."""
CHOSEN = "chosen"
"""Detail of AUTO: the implementation that it chose, in words."""
