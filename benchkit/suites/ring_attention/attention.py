"""One multi-head self-attention layer with rotary positions, in the parts of ring attention.

Shapes: one sequence of N tokens, L of them on this rank; H heads of width D; model width
E = H x D; no biases.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from benchkit.api.gather import first_reason
from benchkit.api.torch_internals import fused_attention, fused_attention_missing
from benchkit.errors import Unavailable

Partial = tuple[Tensor, Tensor]
"""Attention over some of the keys, in float32 or wider.

The output [1, H, L, D], and the log-sum-exp of the scores [1, H, L].
"""


@dataclass(frozen=True)
class Layer:
    """The weights of a layer and its rotary positions.

    Rotary positions follow Su et al., RoFormer, 2104.09864, with neighbouring components paired
    as there.

    Attributes:
        query: weights [E, E].
        key_value: weights [E, 2E].
        out: weights [E, E].
        rotations: of each position, complex [N, 1, D / 2].
        head_dim: width D of a head.
    """

    query: Tensor
    key_value: Tensor
    out: Tensor
    rotations: Tensor
    head_dim: int

    @staticmethod
    def random(
        seq_len: int,
        num_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        seed: int,
    ) -> "Layer":
        """Draws the same layer on every rank: on the CPU, with weights of variance 1 / E."""
        width = num_heads * head_dim
        generator = torch.Generator().manual_seed(seed)

        def draw(columns: int) -> Tensor:
            weight = torch.randn(width, columns, generator=generator) / width**0.5
            return weight.to(device, dtype)

        query, key_value, out = draw(width), draw(2 * width), draw(width)
        frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        positions = torch.arange(seq_len, dtype=torch.float64)
        angles = torch.outer(positions, frequencies).unsqueeze(1)
        rotations = torch.polar(torch.ones_like(angles), angles).to(device)
        if dtype != torch.float64:
            rotations = rotations.to(torch.complex64)
        return Layer(query, key_value, out, rotations, head_dim)

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Projects tokens to queries, keys and values.

        Args:
            x: tokens [L, E].
            positions: of these tokens in the sequence [L].

        Returns:
            The rotated queries [L, H, D], and the block to send: rotated keys and values
            [L, 2, H, D], contiguous.
        """
        query = (x @ self.query).unflatten(-1, (-1, self.head_dim))
        key_value = (x @ self.key_value).unflatten(-1, (2, -1, self.head_dim))
        rotations = self.rotations[positions]
        rotate(query, rotations)
        rotate(key_value[:, 0], rotations)
        return query, key_value

    def finish(self, attended: Tensor) -> Tensor:
        """Applies the output projection to attention [1, H, L, D]; returns [L, E]."""
        return attended[0].transpose(0, 1).flatten(1).to(self.out.dtype) @ self.out


def rotate(x: Tensor, rotations: Tensor) -> None:
    """Rotates neighbouring components of [L, H, D] in place; float32 and float64 need no copy."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    torch.view_as_complex(wide.unflatten(-1, (-1, 2))).mul_(rotations)
    if wide is not x:
        x.copy_(wide)


def by_head(x: Tensor) -> Tensor:
    """Views [L, H, D] as the kernels expect it: [1, H, L, D]."""
    return x.transpose(0, 1).unsqueeze(0)


def require_kernel(device: torch.device, dtype: torch.dtype, head_dim: int) -> None:
    """Tries the device's fused kernel; all ranks call this together.

    Raises:
        Unavailable: on all ranks, if one of them lacks the kernel.
    """
    if lacking := first_reason(fused_attention_missing(device, dtype, head_dim)):
        raise Unavailable(lacking)


def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Partial:
    """Computes attention by the device's fused kernel, with work in proportion to visible keys."""
    out, lse, *_ = fused_attention(query, key, value, causal)
    return out.to(torch.promote_types(out.dtype, torch.float32)), lse


def merge(into: Partial, other: Partial) -> None:
    """Adds attention over further keys to `into`, in place.

    This is the online softmax of Milakov and Gimelshein, 1805.02867.
    """
    out, lse = into
    weight = torch.sigmoid(other[1] - lse).unsqueeze(-1)
    out.lerp_(other[0], weight.to(out.dtype))
    torch.logaddexp(lse, other[1], out=lse)


class Exact:
    """The layer by its definition in float64, to check single rows of an output.

    Keys and values are computed only once.
    """

    def __init__(self, layer: Layer, x: Tensor, causal: bool) -> None:
        weights = (layer.query.double(), layer.key_value.double(), layer.out.double())
        self._layer = Layer(*weights, layer.rotations.to(torch.complex128), layer.head_dim)
        self._x = x.double()
        self._causal = causal
        self._positions = torch.arange(len(x), device=x.device)
        _, self._key_value = self._layer.project(self._x, self._positions)

    def rows(self, positions: Tensor, signs: Tensor) -> Tensor:
        """Computes the output at some positions, for tokens that are multiplied by signs.

        Args:
            positions: of the rows to compute [R].
            signs: +1 or -1 for every token [N].

        Returns:
            The output [R, E].
        """
        signed = signs.double()
        x = self._x[positions] * signed[positions].unsqueeze(-1)
        query = by_head(self._layer.project(x, positions)[0])
        key_value = self._key_value * signed[:, None, None, None]  # both are linear in x
        key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
        scores = query @ key.transpose(-1, -2) / self._layer.head_dim**0.5
        if self._causal:
            scores.masked_fill_(self._positions > positions.unsqueeze(-1), float("-inf"))
        return self._layer.finish(scores.softmax(-1) @ value)
