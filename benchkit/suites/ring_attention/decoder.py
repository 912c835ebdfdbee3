"""A decoder-only language model whose attention is that of ring attention, for inference.

A norm precedes each part, positions are rotary, the feed-forward layer is gated (SwiGLU, Shazeer,
2002.05202), and the head is not tied to the embedding. There are no biases.

Shapes: L tokens on this rank; model width E, feed-forward width F, V rows of the vocabulary.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from benchkit.api.groups import ModelConfig
from benchkit.suites.ring_attention.attention import Layer

NORM_EPS = 1e-5


@dataclass(frozen=True)
class DecoderLayer:
    """The weights of a layer.

    Attributes:
        attention: the attention layer.
        norms: weights of the norms before attention and before the feed-forward layer [2, E].
        gate_up: weights [E, 2F].
        down: weights [F, E].
    """

    attention: Layer
    norms: Tensor
    gate_up: Tensor
    down: Tensor

    def to_attention(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Projects the tokens [L, E] of the residual stream as Layer.project does."""
        return self.attention.project(normed(x, self.norms[0]), positions)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Adds the feed-forward layer to tokens [L, E]."""
        gate, up = (normed(x, self.norms[1]) @ self.gate_up).chunk(2, -1)
        return x + (F.silu(gate) * up) @ self.down


@dataclass(frozen=True)
class Decoder:
    """The weights of a model.

    Attributes:
        embedding: weights [V, E].
        layers: from the first to the last.
        norm: weights of the last norm [E].
        head: weights [E, V].
    """

    embedding: Tensor
    layers: tuple[DecoderLayer, ...]
    norm: Tensor
    head: Tensor

    @staticmethod
    def random(
        model: ModelConfig, length: int, *, dtype: torch.dtype, device: torch.device, seed: int
    ) -> "Decoder":
        """Draws the same model on every rank: on the CPU, with weights of variance 1 / rows.

        Args:
            model: sizes of the model.
            length: number of positions that tokens can have.
            dtype: of the weights.
            device: where the weights are.
            seed: determines the weights; layer i has seed + 1 + i for its attention.
        """
        width, inner = model.d_model, model.d_ff
        generator = torch.Generator().manual_seed(seed)

        def draw(rows: int, columns: int) -> Tensor:
            weight = torch.randn(rows, columns, generator=generator) / rows**0.5
            return weight.to(device, dtype)

        heads = (model.num_heads, width // model.num_heads)
        layers: list[DecoderLayer] = []
        for index in range(model.num_layers):
            where = {"dtype": dtype, "device": device, "seed": seed + 1 + index}
            attention = Layer.random(length, *heads, **where)
            if layers:  # all layers share the rotations of the first
                attention = replace(attention, rotations=layers[0].attention.rotations)
            norms = torch.ones(2, width, dtype=dtype, device=device)
            gate_up, down = draw(width, 2 * inner), draw(inner, width)
            layers.append(DecoderLayer(attention, norms, gate_up, down))
        embedding = draw(model.vocab_size, width) * model.vocab_size**0.5
        head = draw(width, model.vocab_size)
        return Decoder(embedding, tuple(layers), layers[0].norms[0], head)

    def logits(self, x: Tensor) -> Tensor:
        """Applies the last norm and the head: [L, E] -> [L, V]."""
        return normed(x, self.norm) @ self.head


def normed(x: Tensor, weight: Tensor) -> Tensor:
    """Applies RMSNorm (Zhang and Sennrich, 1910.07467) to [L, E]."""
    return F.rms_norm(x, weight.shape, weight, NORM_EPS)
