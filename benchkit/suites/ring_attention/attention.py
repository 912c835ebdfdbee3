"""One multi-head self-attention layer with rotary positions, in the parts that ring attention is made of.

Shapes: one sequence of N tokens, L of them on this rank; H heads of D; model width E = H x D; no biases.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Partial = tuple[Tensor, Tensor]
"""Attention over some of the keys: output [1, H, L, D] and log-sum-exp of the scores [1, H, L], float32 or wider."""


@dataclass(frozen=True)
class Layer:
    """Weights query [E, E], key_value [E, 2E] and out [E, E]; rotations [N, 1, D / 2], complex, of each position.

    Rotary positions: Su et al., RoFormer, 2104.09864, neighbouring components paired as there.
    """

    query: Tensor
    key_value: Tensor
    out: Tensor
    rotations: Tensor
    head_dim: int

    @staticmethod
    def random(
        seq_len: int, num_heads: int, head_dim: int, *, dtype: torch.dtype, device: torch.device, seed: int
    ) -> "Layer":
        """The same on every rank: drawn on the CPU, of variance 1 / E."""
        width, generator = num_heads * head_dim, torch.Generator().manual_seed(seed)
        weights = [torch.randn(width, n * width, generator=generator) / width**0.5 for n in (1, 2, 1)]
        frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(torch.arange(seq_len, dtype=torch.float64), frequencies).unsqueeze(1)
        rotations = torch.polar(torch.ones_like(angles), angles).to(device)
        exact = dtype == torch.float64
        query, key_value, out = (weight.to(device, dtype) for weight in weights)
        return Layer(query, key_value, out, rotations if exact else rotations.to(torch.complex64), head_dim)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Of tokens x [L, E] at their positions [L]: rotated queries [L, H, D], and what is sent [L, 2, H, D].

        The latter holds rotated keys and values, contiguous.
        """
        query = (x @ self.query).unflatten(-1, (-1, self.head_dim))
        key_value = (x @ self.key_value).unflatten(-1, (2, -1, self.head_dim))
        rotations = self.rotations[positions]
        rotate(query, rotations)
        rotate(key_value[:, 0], rotations)
        return query, key_value

    def finish(self, attended: Tensor) -> Tensor:
        """The output projection of [1, H, L, D]: [L, E]."""
        return attended[0].transpose(0, 1).flatten(1).to(self.out.dtype) @ self.out


def rotate(x: Tensor, rotations: Tensor) -> None:
    """Rotates neighbouring components of [L, H, D] in place, which needs no copy in float32 and float64."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    torch.view_as_complex(wide.unflatten(-1, (-1, 2))).mul_(rotations)
    if wide is not x:
        x.copy_(wide)


def by_head(x: Tensor) -> Tensor:
    """[L, H, D] as the kernels want it, without a copy: [1, H, L, D]."""
    return x.transpose(0, 1).unsqueeze(0)


def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Partial:
    """Attention by the device's fused kernel, whose work is in proportion to the keys that are seen.

    The kernels are the ones behind torch's scaled_dot_product_attention; unlike it they give the log-sum-exp, too.
    """
    aten = torch.ops.aten
    if query.device.type == "cpu":
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal)
    elif query.dtype in (torch.float16, torch.bfloat16):
        out, lse = aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal)[:2]
    else:
        out, lse = aten._scaled_dot_product_efficient_attention(query, key, value, None, True, 0.0, causal)[:2]
        lse = lse[..., : query.shape[2]]  # it is padded
    return out.to(torch.promote_types(out.dtype, torch.float32)), lse


def merge(into: Partial, other: Partial) -> None:
    """Adds attention over further keys, in place (online softmax: Milakov and Gimelshein, 1805.02867)."""
    out, lse = into
    weight = torch.sigmoid(other[1] - lse).unsqueeze(-1)
    out.lerp_(other[0], weight.to(out.dtype))
    torch.logaddexp(lse, other[1], out=lse)


class Exact:
    """The layer by its definition, in float64, to check single rows of an output; keys and values are computed once."""

    def __init__(self, layer: Layer, x: Tensor, causal: bool) -> None:
        weights = (layer.query.double(), layer.key_value.double(), layer.out.double())
        self._layer = Layer(*weights, layer.rotations.to(torch.complex128), layer.head_dim)
        self._x, self._causal = x.double(), causal
        self._everywhere = torch.arange(len(x), device=x.device)
        self._key_value = self._layer.project(self._x, self._everywhere)[1]

    def rows(self, positions: Tensor, signs: Tensor) -> Tensor:
        """The output at some positions [R] for the tokens times their signs [N] of +1 and -1: [R, E]."""
        signed = signs.double()
        x = self._x[positions] * signed[positions].unsqueeze(-1)
        query = by_head(self._layer.project(x, positions)[0])
        key, value = (by_head(self._key_value[:, i] * signed[:, None, None]) for i in (0, 1))  # linear in x
        scores = query @ key.transpose(-1, -2) / self._layer.head_dim**0.5
        if self._causal:
            scores.masked_fill_(self._everywhere > positions.unsqueeze(-1), float("-inf"))
        return self._layer.finish(scores.softmax(-1) @ value)
