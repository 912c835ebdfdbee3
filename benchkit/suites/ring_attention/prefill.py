"""Prefill: the whole prompt through all layers, up to the first new token."""

import torch.distributed as dist
from torch import Tensor

from benchkit.api.regions import WAIT, region
from benchkit.suites.ring_attention.attention import by_head
from benchkit.suites.ring_attention.decoder import Decoder
from benchkit.suites.ring_attention.ring import PROJECT, REGIONS, RingAttention

FEED_FORWARD = "feed_forward"
MODEL_REGIONS = (*REGIONS, FEED_FORWARD)
"""Regions of a step. FEED_FORWARD includes the embedding, the last norm and the head."""


class Prefill:
    """One rank's part of a prompt.

    Attributes:
        cache: keys and values of this rank's tokens as the last step left them, [L, 2, H, D] of
            each layer.
        x: output of the last layer for this rank's tokens [L, E].
        logits: of the last token [1, V], on the rank that owns it; None elsewhere.
    """

    def __init__(self, decoder: Decoder, ids: Tensor, attention: RingAttention) -> None:
        """Selects one rank's tokens.

        Args:
            decoder: the model.
            ids: all tokens of the prompt [N], of which the rank computes those of its split.
            attention: over the split, for this rank.
        """
        self.decoder = decoder
        self.attention = attention
        self.ids = ids[attention.positions]
        self.cache: list[Tensor] = []
        self.x = decoder.embedding[self.ids]
        self.logits: Tensor | None = None

    def take(self, ids: Tensor) -> None:
        """Takes other tokens [N + …] in place of those that it was made for."""
        self.ids.copy_(ids[self.attention.positions])

    def step(self) -> Tensor:
        """Computes all layers and returns the first new token [1], which all ranks then know."""
        self.cache = []
        positions = self.attention.positions
        with region(FEED_FORWARD):
            x = self.decoder.embedding[self.ids]
        for layer in self.decoder.layers:
            with region(PROJECT):
                query, own = layer.to_attention(x, positions)
            self.cache.append(own)
            attended = self.attention.attend(by_head(query), own)
            with region(PROJECT):
                x = x + layer.attention.finish(attended)
            with region(FEED_FORWARD):
                x = layer.feed_forward(x)
        self.x = x
        return self._first_token()

    def _first_token(self) -> Tensor:
        """Applies the head on the rank that owns the last token, and tells all ranks the result."""
        owner = self.attention.last_owner
        token = self.ids.new_empty(1)
        if self.attention.rank == owner:
            with region(FEED_FORWARD):
                self.logits = self.decoder.logits(self.x[-1:])
                token = self.logits.argmax(-1)
        if self.attention.world_size > 1:
            with region(WAIT):
                dist.broadcast(token, src=owner)
        return token
