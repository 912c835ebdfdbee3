"""Names in records that analysis reads of any suite."""

from enum import Enum

PREDICTED_S, IDEAL_S = "predicted_s", "ideal_s"
"""Seconds of a step by the suite's cost model, and with all work spread over all speed."""
TOKENS_PER_CALL, CAUSAL_FLOPS = "tokens_per_call", "causal_flops"
"""Tokens of a step, and those of its useful operations that a causal mask leaves."""
PEAK_TFLOP_PER_S, PEAK_FROM = "peak_tflop_per_s", "peak_from"
"""Peak rate that utilisation is a share of, and where that rate is from, in words."""
MEASURED_PEAK = "best matrix product here"
"""PEAK_FROM where no data sheet states the peak rate."""
FORWARD, BACKWARD = "forward", "backward"
"""Regions of a training step."""
QUEUEING = "queueing_on_host"
"""Region in which the host queues the calls of a sample on a GPU, by the host's clock."""
RESERVED_BYTES, OUTSIDE_BYTES = "reserved_bytes", "outside_bytes"
"""Memory of a GPU: the peak that torch's allocator reserved, and what was in use outside of it."""


class StrEnum(str, Enum):
    """Members equal their text and are shown as it; Python has this class from 3.11 on."""

    def __str__(self) -> str:
        return str(self.value)
