"""The network: a Llama with RMSNorm, rotary positions, causal attention, SwiGLU and no biases.

A norm precedes each part; the head is untied from the embedding.
Shapes: tokens [B, s] in, logits [B, s, V] out; H heads of D = d_model / H.
Sources: Llama (2302.13971) for the whole, RoFormer (2104.09864) for positions, GLU variants
(2002.05202) for SwiGLU.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchkit.api.groups import ModelConfig

NORM_EPS = 1e-5
ROTARY_BASE = 10000.0
INIT_STD = 0.02


class Attention(nn.Module):
    """Causal self-attention of [B, s, d].

    Where its projections are sharded, it has only some of the heads.
    """

    def __init__(self, d_model: int, num_heads: int, naive: bool) -> None:
        super().__init__()
        self.head_dim = d_model // num_heads
        self.naive = naive
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        query = self.heads(self.query(x))
        key = self.heads(self.key(x))
        value = self.heads(self.value(x))
        cos, sin = cos.to(query.dtype), sin.to(query.dtype)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        if self.naive:
            attended = attend_naively(query, key, value)
        else:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(attended.transpose(1, 2).flatten(2))

    def heads(self, x: Tensor) -> Tensor:
        """Splits the heads: [B, s, H D] -> [B, H, s, D]."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Applies rotary positions, where component i is paired with component i + D / 2.

    Args:
        x: queries or keys [B, H, s, D].
        cos: cosines [s, D / 2].
        sin: sines [s, D / 2].
    """
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def attend_naively(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Computes attention step by step, with all scores [B, H, s, s] in memory."""
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(-1) @ value


class FeedForward(nn.Module):
    """SwiGLU of [B, s, d]: down(silu(gate x) * up x)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """One decoder layer of [B, s, d]."""

    def __init__(self, model: ModelConfig, naive: bool) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(model.d_model, eps=NORM_EPS)
        self.attention = Attention(model.d_model, model.num_heads, naive)
        self.feed_forward_norm = nn.RMSNorm(model.d_model, eps=NORM_EPS)
        self.feed_forward = FeedForward(model.d_model, model.d_ff)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Network(nn.Module):
    """The whole model.

    Args:
        model: its sizes, as in conf/model.
        naive: whether attention is computed step by step.
        checkpointing: whether only each layer's input is kept for backward.
    """

    def __init__(
        self, model: ModelConfig, naive: bool = False, checkpointing: bool = False
    ) -> None:
        super().__init__()
        self.head_dim = model.d_model // model.num_heads
        self.checkpointing = checkpointing
        self.embedding = nn.Embedding(model.vocab_size, model.d_model)
        self.layers = nn.ModuleList(Layer(model, naive) for _ in range(model.num_layers))
        self.norm = nn.RMSNorm(model.d_model, eps=NORM_EPS)
        self.head = nn.Linear(model.d_model, model.vocab_size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        cos, sin = rotations(tokens.shape[1], self.head_dim, tokens.device)
        for layer in self.layers:
            if self.checkpointing and torch.is_grad_enabled():
                # There is no dropout, so no random state has to be kept.
                x = checkpoint(layer, x, cos, sin, use_reentrant=False, preserve_rng_state=False)
            else:
                x = layer(x, cos, sin)
        return self.head(self.norm(x))

    def parts(self) -> Iterator[nn.Module]:
        """Yields the modules that together hold all weights, in order."""
        yield from (self.embedding, *self.layers, self.norm, self.head)


def rotations(length: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Returns cosines and sines [s, D / 2] of the angles of positions 0 to s - 1."""
    frequencies = ROTARY_BASE ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
    angles = torch.outer(torch.arange(length, device=device), frequencies)
    return angles.cos(), angles.sin()


def build(
    network: Callable[[], Network],
    dtype: torch.dtype,
    device: torch.device,
    seed: int,
    shard: Callable[[nn.Module], object] = lambda part: None,
) -> Network:
    """Builds a network with random weights, part by part.

    Args:
        network: makes the network, without memory for its weights.
        dtype: of the weights.
        device: where the weights are.
        seed: determines the weights.
        shard: called with each part as soon as it has weights. Where ranks share the weights, no
            rank ever holds the whole network.
    """
    generator = torch.Generator(device).manual_seed(seed)
    with torch.device("meta"):
        built: Network = network().to(dtype)
    for part in built.parts():
        part.to_empty(device=device)
        for name, weight in part.named_parameters():
            with torch.no_grad():
                if "norm" in name or isinstance(part, nn.RMSNorm):
                    weight.fill_(1.0)
                else:
                    weight.normal_(0.0, INIT_STD, generator=generator)
        shard(part)
    return built
