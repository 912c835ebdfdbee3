"""The calls whose times give the costs of ring attention."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.p2p import InFlight
from benchkit.suites.ring_attention.attention import Layer, attend, by_head, merge

PROBE_QUERIES, LONGEST_PROBE = 512, 8192


def block_probe(layer: Layer, x: Tensor) -> tuple[Callable[[], None], Tensor, int]:
    """Returns a call that attends over a block of keys, all its keys and values, and its pairs."""
    num_keys = min(max(len(x) // 2, 1), LONGEST_PROBE)
    queries, key_value = layer.project(x[:num_keys], torch.arange(num_keys, device=x.device))
    query = by_head(queries[:PROBE_QUERIES])
    key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
    into = attend(query, key, value, False)

    def attend_block() -> None:
        merge(into, attend(query, key, value, False))

    return attend_block, key_value, query.shape[2] * num_keys


def passing_on(block: Tensor) -> Callable[[], None]:
    """Returns a call that sends a block to the next rank and receives one from the rank before.

    On one rank the call does nothing.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    incoming = torch.empty_like(block)
    in_flight = InFlight(1)

    def step() -> None:
        if size > 1:
            in_flight.start(0, [(block, after)], [(incoming, before)], None)
            in_flight.wait(0)

    return step
