"""Decode: one new token after the other, with the keys of the sequence spread over the ranks.

Each rank computes the new token through all layers, but attends only over its own part of the
cache. The parts are merged by their log-sum-exp, as in flash decoding (Dao et al., 2023).
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.ring_attention.attention import attend, by_head
from benchkit.suites.ring_attention.decoder import Decoder
from benchkit.suites.ring_attention.prefill import FEED_FORWARD
from benchkit.suites.ring_attention.ring import PROJECT


def owners_of_new(tokens: Sequence[int], count: int) -> list[int]:
    """Returns the rank that keeps each of `count` new tokens.

    They keep the proportions of the prompt's tokens per rank, by the method of D'Hondt.
    """
    held = list(tokens)
    owners: list[int] = []
    for _ in range(count):
        pairs = zip(held, tokens, strict=True)
        ratios = [(now + 1) / start if start else float("inf") for now, start in pairs]
        owners.append(ratios.index(min(ratios)))
        held[owners[-1]] += 1
    return owners


class Decode:
    """One rank's part of the decoding of some tokens.

    Attributes:
        logits: after each of the new tokens, as the last step left them [T, V].
    """

    def __init__(
        self, decoder: Decoder, ids: Tensor, cache: list[Tensor], tokens: Sequence[int], rank: int
    ) -> None:
        """Copies the cache of a prompt into one that has room for the new tokens.

        Args:
            decoder: the model.
            ids: tokens of the prompt and the new ones [N + T]. The new tokens are given, so that
                all cases decode the same ones.
            cache: keys and values of this rank's tokens of the prompt [L, 2, H, D], of each layer.
            tokens: number of the prompt's tokens of each rank, N in all.
            rank: this rank.
        """
        self.decoder = decoder
        self.rank = rank
        self.world_size = len(tokens)
        self.first = sum(tokens)
        self.ids = ids[self.first :].clone()
        self.owners = owners_of_new(tokens, len(self.ids))
        self.num_cached = tokens[rank]
        room = self.num_cached + self.owners.count(rank)
        self.cache = [each.new_empty(room, *each.shape[1:]) for each in cache]
        self.logits: list[Tensor] = []
        self.take(ids, cache)

    def take(self, ids: Tensor, cache: Sequence[Tensor]) -> None:
        """Takes other tokens and the cache of their prompt; the arguments are as above."""
        self.ids.copy_(ids[self.first :])
        for larger, each in zip(self.cache, cache, strict=True):
            larger[: self.num_cached] = each

    def forget(self) -> None:
        """Poisons what a step writes: the logits, and the keys of the new tokens."""
        for each in self.cache:
            each[self.num_cached :] = float("nan")
        for each in self.logits:
            each.fill_(float("nan"))
        self.logits = []

    def step(self) -> Tensor:
        """Decodes all new tokens and returns the most probable token after the last one [1]."""
        self.logits = []
        length = self.num_cached
        chosen = self.ids[:1]
        for turn, owner in enumerate(self.owners):
            is_mine = owner == self.rank
            length += is_mine
            x = self._through_layers(turn, length, is_mine)
            with region(FEED_FORWARD):
                self.logits.append(self.decoder.logits(x))
                chosen = self.logits[-1].argmax(-1)
        return chosen

    def _through_layers(self, turn: int, length: int, is_mine: bool) -> Tensor:
        """Computes a new token [1, E] with the first `length` keys that this rank keeps."""
        position = torch.tensor([self.first + turn], device=self.ids.device)
        with region(FEED_FORWARD):
            x = self.decoder.embedding[self.ids[turn : turn + 1]]
        for layer, cache in zip(self.decoder.layers, self.cache, strict=True):
            with region(PROJECT):
                query, own = layer.to_attention(x, position)
                if is_mine:
                    cache[length - 1] = own[0]
            with region(COMPUTE):
                part = attended(by_head(query), cache[:length])
            if self.world_size > 1:
                part = self._merged(part)
            with region(PROJECT):
                x = x + layer.attention.finish(part[None, :, None, :-1])
            with region(FEED_FORWARD):
                x = layer.feed_forward(x)
        return x

    def _merged(self, part: Tensor) -> Tensor:
        """Merges the parts of all ranks, each as `attended` returns it.

        One all-gather takes the place of an all-reduce of the largest log-sum-exp and another of
        the weighted sums.
        """
        parts = [torch.empty_like(part) for _ in range(self.world_size)]
        with region(WAIT):
            dist.all_gather(parts, part)
        with region(COMPUTE):
            stacked = torch.stack(parts)
            weights = stacked[..., -1:].softmax(0)
            return (weights * stacked).sum(0)


def attended(query: Tensor, key_value: Tensor) -> Tensor:
    """Computes attention of one query over a rank's part of the keys.

    Args:
        query: [1, H, 1, D].
        key_value: [L, 2, H, D]; without keys the log-sum-exp is the least finite number.

    Returns:
        The output, and the log-sum-exp in the last column [H, D + 1].
    """
    if not len(key_value):
        wide = torch.promote_types(query.dtype, torch.float32)
        empty = query.new_zeros(query.shape[1], query.shape[3] + 1, dtype=wide)
        empty[:, -1] = torch.finfo(wide).min
        return empty
    key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
    out, lse = attend(query, key, value, False)
    return torch.cat((out[0, :, 0], lse[0].to(out.dtype)), dim=1)
