"""A decoder-only language model on a split sequence, for inference: prefill and decode.

A norm precedes each part, positions are rotary, the feed-forward layer is gated (SwiGLU, Shazeer,
2002.05202), and the head is not tied to the embedding. There are no biases. In decode, each rank
computes the new token through all layers, but attends only over its own part of the cache. The
parts are merged by their log-sum-exp, as in flash decoding (Dao et al., 2023).

Shapes: L tokens on this rank; model width E, feed-forward width F, V rows of the vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from benchkit.api.drawing import uniform, whole
from benchkit.api.keys import ModelConfig
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.suites.ring_attention.ring import (
    PROJECT,
    REGIONS,
    AttentionLayer,
    RingAttention,
    attend,
    by_head,
)

NORM_EPS = 1e-5


@dataclass(frozen=True)
class DecoderLayer:
    """Weights: norms [2, E], gate_up [E, 2F], down [F, E]."""

    attention: AttentionLayer
    norms: Tensor
    gate_up: Tensor
    down: Tensor

    def in_float64(self) -> "DecoderLayer":
        rest = (self.norms.double(), self.gate_up.double(), self.down.double())
        return DecoderLayer(self.attention.in_float64(), *rest)

    def to_attention(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.attention.project(normalize(x, self.norms[0]), positions)

    def feed_forward(self, x: Tensor) -> Tensor:
        gate, up = (normalize(x, self.norms[1]) @ self.gate_up).chunk(2, -1)
        return x + (F.silu(gate) * up) @ self.down


@dataclass(frozen=True)
class Decoder:
    """Weights: embedding [V, E], last norm [E], head [E, V]."""

    embedding: Tensor
    layers: tuple[DecoderLayer, ...]
    norm: Tensor
    head: Tensor

    @staticmethod
    def random(
        model: ModelConfig, length: int, *, dtype: torch.dtype, device: torch.device, seed: int
    ) -> "Decoder":
        """Draw the same model on every rank, with weights of variance 1 / rows.

        `length` is the most positions. Layer i has `seed` + 1 + i for its attention.
        """
        width, inner = model.d_model, model.d_ff
        numbers = count()

        def draw(rows: int, columns: int) -> Tensor:
            key, part = (seed, next(numbers)), whole(rows, columns)
            return uniform(part, key=key, device=device, variance=1 / rows).to(dtype)

        heads = (model.num_heads, width // model.num_heads)
        layers: list[DecoderLayer] = []
        for index in range(model.num_layers):
            where = {"dtype": dtype, "device": device, "seed": seed + 1 + index}
            attention = AttentionLayer.random(length, *heads, **where)
            if layers:  # all layers share the rotations of the first
                attention = replace(attention, rotations=layers[0].attention.rotations)
            norms = torch.ones(2, width, dtype=dtype, device=device)
            gate_up, down = draw(width, 2 * inner), draw(inner, width)
            layers.append(DecoderLayer(attention, norms, gate_up, down))
        embedding = draw(model.vocab_size, width) * model.vocab_size**0.5
        head = draw(width, model.vocab_size)
        return Decoder(embedding, tuple(layers), layers[0].norms[0], head)

    def logits(self, x: Tensor) -> Tensor:
        return normalize(x, self.norm) @ self.head


def normalize(x: Tensor, weight: Tensor) -> Tensor:
    """Apply RMSNorm (Zhang and Sennrich, 1910.07467) to [L, E]."""
    return F.rms_norm(x, weight.shape, weight, NORM_EPS)


FEED_FORWARD = "feed_forward"
MODEL_REGIONS = (*REGIONS, FEED_FORWARD)  # FEED_FORWARD includes embedding, last norm, head


class Prefill:
    """One rank's part of a prompt.

    Attributes:
        cache: keys and values [L, 2, H, D] of each layer, as the last step left them.
        x: output of the last layer [L, E].
        logits: of the last token [1, V], on the rank that owns it; None elsewhere.
    """

    def __init__(self, decoder: Decoder, ids: Tensor, attention: RingAttention) -> None:
        self.decoder = decoder
        self.attention = attention
        self.ids = ids[attention.positions]
        self.cache: list[Tensor] = []
        self.x = decoder.embedding[self.ids]
        self.logits: Tensor | None = None

    def take(self, ids: Tensor) -> None:
        self.ids.copy_(ids[self.attention.positions])

    def step(self) -> Tensor:
        """Compute all layers and return the first new token [1], on all ranks."""
        self.cache = []
        positions = self.attention.positions
        with region(FEED_FORWARD):
            x = self.decoder.embedding[self.ids]
        for layer in self.decoder.layers:
            with region(PROJECT):
                query, key_value = layer.to_attention(x, positions)
            self.cache.append(key_value)
            attended = self.attention.attend(by_head(query), key_value)
            with region(PROJECT):
                x = x + layer.attention.finish(attended)
            with region(FEED_FORWARD):
                x = layer.feed_forward(x)
        self.x = x
        return self._first_token()

    def _first_token(self) -> Tensor:
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


def owners_of_new(tokens: Sequence[int], count: int) -> list[int]:
    """Return the rank that caches each new token, in the prompt's proportions (D'Hondt)."""
    counts = list(tokens)
    owners: list[int] = []
    for _ in range(count):
        pairs = zip(counts, tokens, strict=True)
        ratios = [(now + 1) / start if start else float("inf") for now, start in pairs]
        owners.append(ratios.index(min(ratios)))
        counts[owners[-1]] += 1
    return owners


class Decode:
    """One rank's part of decoding T tokens; a step leaves the logits after each [T, V]."""

    def __init__(
        self, decoder: Decoder, ids: Tensor, cache: list[Tensor], tokens: Sequence[int], rank: int
    ) -> None:
        """Copy the cache of a prompt into one that has room for the new tokens.

        All cases decode the same tokens `ids` [N + T], the prompt and the new ones. The cache of
        each layer is this rank's part of the prompt [L, 2, H, D]; `tokens` is the length of every
        rank's part.
        """
        self.decoder = decoder
        self.rank = rank
        self.world_size = len(tokens)
        self.first = sum(tokens)
        self.ids = ids[self.first :].clone()
        self.positions = torch.arange(self.first, len(ids), device=ids.device)
        self.owners = owners_of_new(tokens, len(self.ids))
        self.num_cached = tokens[rank]
        room = self.num_cached + self.owners.count(rank)
        self.cache = [layer_cache.new_empty(room, *layer_cache.shape[1:]) for layer_cache in cache]
        self.logits: list[Tensor] = []
        self.take(ids, cache)

    def take(self, ids: Tensor, cache: Sequence[Tensor]) -> None:
        self.ids.copy_(ids[self.first :])
        for target, source in zip(self.cache, cache, strict=True):
            target[: self.num_cached] = source

    def forget(self) -> None:
        for cache in self.cache:
            cache[self.num_cached :] = float("nan")
        for logits in self.logits:
            logits.fill_(float("nan"))
        self.logits = []

    def step(self) -> Tensor:
        """Decode all new tokens and return the most probable token after the last one [1]."""
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
        """Compute a new token [1, E] with the first `length` keys of this rank's cache."""
        position = self.positions[turn : turn + 1]
        with region(FEED_FORWARD):
            x = self.decoder.embedding[self.ids[turn : turn + 1]]
        for layer, cache in zip(self.decoder.layers, self.cache, strict=True):
            with region(PROJECT):
                query, key_value = layer.to_attention(x, position)
                if is_mine:
                    cache[length - 1] = key_value[0]
            with region(COMPUTE):
                part = attended(by_head(query), cache[:length])
            if self.world_size > 1:
                part = self._merge(part)
            with region(PROJECT):
                x = x + layer.attention.finish(part[None, :, None, :-1])
            with region(FEED_FORWARD):
                x = layer.feed_forward(x)
        return x

    def _merge(self, part: Tensor) -> Tensor:
        parts = [torch.empty_like(part) for _ in range(self.world_size)]
        with region(WAIT):
            dist.all_gather(parts, part)  # in place of two all-reduces
        with region(COMPUTE):
            stacked = torch.stack(parts)
            weights = stacked[..., -1:].softmax(0)
            return (weights * stacked).sum(0)


def attended(query: Tensor, key_value: Tensor) -> Tensor:
    """Compute attention of one query [1, H, 1, D] over a rank's part of the keys [L, 2, H, D].

    Return the output, and the log-sum-exp in the last column [H, D + 1]. Without keys that is the
    least finite number.
    """
    if not len(key_value):
        wide = torch.promote_types(query.dtype, torch.float32)
        empty = query.new_zeros(query.shape[1], query.shape[3] + 1, dtype=wide)
        empty[:, -1] = torch.finfo(wide).min
        return empty
    key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
    out, lse = attend(query, key, value, False)
    return torch.cat((out[0, :, 0], lse[0].to(out.dtype)), dim=1)
