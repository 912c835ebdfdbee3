"""Attention over any split of the sequence with the keys and values of all ranks gathered first."""

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.ring_attention.attention import Partial
from benchkit.suites.ring_attention.ring import RingAttention


class GatheredAttention(RingAttention):
    """The ring's blocks, computed after one all-gather and not while keys are passed on."""

    def attend(self, query: Tensor, own: Tensor) -> Tensor:
        """Computes attention over all keys that the queries see, as RingAttention.attend does."""
        with region(WAIT):
            gathered = self._gather(own)
        result: Partial | None = None
        with region(COMPUTE):
            for turn, blocks in enumerate(self.blocks):
                held = gathered[(self.rank - turn) % self.world_size]
                for block in blocks:
                    result = self._add(result, query, held, block)
        return query if result is None else result[0]

    def _gather(self, own: Tensor) -> list[Tensor]:
        """Returns the keys and values of each rank [L of the rank, 2, H, D].

        All ranks send as many tokens as the rank that has most, since gloo gathers equal sizes.
        """
        padded = own.new_zeros(max(self.lengths), *own.shape[1:])
        padded[: len(own)] = own
        gathered = [torch.empty_like(padded) for _ in self.lengths]
        dist.all_gather(gathered, padded)
        return [each[:length] for each, length in zip(gathered, self.lengths, strict=True)]
