"""A layer by definition, in float64, and the tolerances of results."""

import torch
from torch import Tensor

from benchkit.api.memory import wait_for_device
from benchkit.errors import InvalidResult
from benchkit.suites.ring_attention.ring import AttentionLayer, by_head

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.2}
"""Largest error as a share of the row's largest value, well above the rounding observed."""


def unseen_keys(ranks: int, dtype: torch.dtype, layers: int = 1) -> str:
    """Return a remark if one rank's keys may be missing unseen, or "".

    A row is a mean of values, with similar weights for random inputs. Without those of one rank of
    N it is off by about 1 / sqrt(N), and the sum of L layers by 1 / sqrt(N L).
    """
    off = (ranks * layers) ** -0.5
    if ranks == 1 or off > TOLERANCES[dtype]:
        return ""
    return (
        f"whether one rank's keys are missing: of {ranks} ranks they change a row by about "
        f"{off:.2g} of its size, allowed is {TOLERANCES[dtype]:g}"
    )


def compare(output: Tensor, expected: Tensor, what: str, positions: list[int]) -> None:
    """Raise InvalidResult if rows [R, K] of these positions exceed the tolerance."""
    error = (output.double() - expected).abs().amax(1) / expected.abs().amax(1)
    wrong = ~(error <= TOLERANCES[output.dtype])
    wait_for_device(output)
    if wrong.any():
        first = int(wrong.nonzero()[0])
        raise InvalidResult(
            f"{what} {positions[first]} is off by {float(error[first]):.2g} of its size"
        )


class ExactLayer:
    """Computes single rows of a layer; its keys and values are computed once."""

    def __init__(self, layer: AttentionLayer, x: Tensor, causal: bool) -> None:
        self._layer = layer.in_float64()
        self._x = x.double()
        self._causal = causal
        _, self._key_value = self._layer.project(self._x, torch.arange(len(x), device=x.device))

    def rows(self, positions: Tensor, signs: Tensor) -> Tensor:
        """Compute the output [R, E] at positions [R], for tokens multiplied by signs [N]."""
        signed = signs.double()
        x = self._x[positions] * signed[positions].unsqueeze(-1)
        query = by_head(self._layer.project(x, positions)[0])
        key_value = self._key_value * signed[:, None, None, None]  # both are linear in x
        key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
        seen = positions if self._causal else None
        return self._layer.finish(attend_rows(query, key, value, seen))


def attend_rows(query: Tensor, key: Tensor, value: Tensor, seen: Tensor | None) -> Tensor:
    """Compute attention [1, H, R, D] with all scores in memory.

    `seen` is the last position that each query sees [R]; None if all see everything.
    """
    scores = query @ key.transpose(-1, -2) / key.shape[-1] ** 0.5
    if seen is not None:
        later = torch.arange(key.shape[2], device=key.device) > seen.unsqueeze(-1)
        scores.masked_fill_(later, float("-inf"))
    return scores.softmax(-1) @ value
