"""Which order and how many chunks: by what the link and the matmul cost here, measured on all ranks together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

SecondsOf = Callable[[Callable[[], object]], list[float]]
Call = Callable[[], object]
CHUNKS = (2, 4, 8)
"""What is considered."""


@dataclass(frozen=True)
class Costs:
    """A collective takes latency_s + byte_s x bytes of its larger buffer (Hockney, 1994), a matmul flop_s each.

    hidden: of what could be done at once, the share that is, from 0 to 1.
    """

    latency_s: float
    byte_s: float
    flop_s: float
    hidden: float

    def plain(self, flops: float, num_bytes: float) -> float:
        """First one, then the other."""
        return self.flop_s * flops + self.latency_s + self.byte_s * num_bytes

    def in_chunks(self, flops: float, num_bytes: float, chunks: int) -> float:
        """Chunk by chunk, one's communication beside another's computation; each chunk has a latency of its own."""
        compute_s, communicate_s = self.flop_s * flops, chunks * self.latency_s + self.byte_s * num_bytes
        at_once_s = (1 - 1 / chunks) * min(compute_s, communicate_s)
        return compute_s + communicate_s - self.hidden * at_once_s

    def candidates(self, flops: float, num_bytes: float) -> Iterator[tuple[float, int]]:
        """Predicted time and number of chunks, 1 for none; the simplest first."""
        yield self.plain(flops, num_bytes), 1
        for chunks in CHUNKS:
            yield self.in_chunks(flops, num_bytes, chunks), chunks


def measure_costs(
    seconds_of: SecondsOf, small: tuple[int, Call], large: tuple[int, Call], compute: tuple[float, Call], both: Call
) -> Costs:
    """Times a small and a large collective (bytes, call), a computation (operations, call), and both at once."""
    small_s, large_s, compute_s, both_s = (max(seconds_of(call)) for call in (small[1], large[1], compute[1], both))
    byte_s = max(0.0, large_s - small_s) / max(1, large[0] - small[0])
    hidden = (compute_s + large_s - both_s) / min(compute_s, large_s)
    latency_s = max(0.0, small_s - byte_s * small[0])
    return Costs(latency_s, byte_s, compute_s / compute[0], min(1.0, max(0.0, hidden)))
