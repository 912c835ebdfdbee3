"""Names in records of ring_attention, which the suite writes and its analysis reads."""

STRATEGY = "strategy"
"""Label of a case: how the sequence is split."""
REFERENCE, EVEN, UNEVEN, LUT, FORMULA = "reference", "even", "uneven", "lut", "formula"
BALANCED, ZIGZAG, ONLINE, TORCH = "balanced", "zigzag", "online", "torch"
STRATEGIES = (REFERENCE, EVEN, UNEVEN, LUT, FORMULA, BALANCED, ZIGZAG, ONLINE, TORCH)
"""Values of STRATEGY. REFERENCE is an even split on ranks without slowdown, TORCH torch's own."""
TOKENS = "tokens"
"""Detail of a case: the number of tokens of each rank."""
PHASE, IMPLEMENTATION = "phase", "implementation"
"""Labels of a case of ring_model, beside STRATEGY."""
PREFILL, DECODE = "prefill", "decode"
PHASES = (PREFILL, DECODE)
"""Values of PHASE."""
RING, ALL_GATHER, SINGLE = "ring", "all_gather", "single"
IMPLEMENTATIONS = (RING, ALL_GATHER, SINGLE)
"""Values of IMPLEMENTATION. SINGLE is the first rank alone, with the whole sequence."""
WHOLE = "whole"
"""Value of STRATEGY where one rank has the whole sequence."""
MODEL_STRATEGIES = (EVEN, UNEVEN, LUT, FORMULA, BALANCED, ZIGZAG)
"""Values of STRATEGY that ring_model has beside WHOLE."""
