"""Names in records of ring_attention, which the suite writes and its analysis reads."""

STRATEGY = "strategy"
"""Label of a case: how the sequence is split."""
REFERENCE, EVEN, UNEVEN, LUT, FORMULA = "reference", "even", "uneven", "lut", "formula"
BALANCED, ZIGZAG, ONLINE, TORCH = "balanced", "zigzag", "online", "torch"
STRATEGIES = (REFERENCE, EVEN, UNEVEN, LUT, FORMULA, BALANCED, ZIGZAG, ONLINE, TORCH)
"""Values of STRATEGY. REFERENCE is an even split on ranks without slowdown, TORCH torch's own."""
TOKENS = "tokens"
"""Detail of a case: the number of tokens of each rank."""
