"""torch's own ring attention as a reference: even splits, in zigzag order if it is causal.

By torch's default, keys and values are gathered from all ranks at once and not passed round.
"""

import inspect
from operator import attrgetter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.regions import COMPUTE, region
from benchkit.suites.ring_attention.attention import Layer, by_head
from benchkit.suites.ring_attention.ring import PROJECT
from benchkit.suites.ring_attention.splits import Split

ARGUMENTS = ("group", "seq_dim", "op", "query", "key", "value", "is_causal")
"""The names of the arguments of torch's function, which is private and may change."""


def missing(seq_len: int, world_size: int, dtype: torch.dtype) -> str:
    """Returns why torch's ring attention cannot run here; "" if it can."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

        names = ("_templated_ring_attention", "_cp_options.enable_load_balance")
        attention, _ = attrgetter(*names)(theirs)
        inspect.signature(attention).bind(**dict.fromkeys(ARGUMENTS))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return f"torch {torch.__version__} has no ring attention to compare with ({error})"
    if dtype == torch.float64:
        return "torch's ring attention merges blocks in float32"
    if seq_len % (2 * world_size):
        return f"torch's ring attention needs a multiple of {2 * world_size} tokens, not {seq_len}"
    return ""


class TorchRing:
    """One rank's part of the layer, with the attention that torch's `context_parallel` calls."""

    def __init__(self, layer: Layer, x: Tensor, split: Split, rank: int, causal: bool) -> None:
        """Selects the tokens of a rank; torch requires an even split, or a causal one in zigzag."""
        pieces = split.pieces[rank]
        self.positions = torch.cat([torch.arange(*piece, device=x.device) for piece in pieces])
        self.layer = layer
        self.x = x[self.positions]
        self.causal = causal

    def step(self) -> Tensor:
        """Computes the layer's output for this rank's tokens [L, E]."""
        from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

        with region(PROJECT):
            rotated, key_value = self.layer.project(self.x, self.positions)
            query = by_head(rotated)
            key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
        theirs._cp_options.enable_load_balance = self.causal
        values = (dist.group.WORLD, 2, kernel, query, key, value, self.causal)
        arguments = dict(zip(ARGUMENTS, values, strict=True))
        with region(COMPUTE):  # includes the waiting, which torch does not separate
            out, *_ = theirs._templated_ring_attention(**arguments)
        with region(PROJECT):
            return self.layer.finish(out)


def kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """Calls the fused kernel of the device with the signature that torch's own code expects."""
    aten = torch.ops.aten
    causal = options["is_causal"]
    if query.device.type == "cpu":
        fused = aten._scaled_dot_product_flash_attention_for_cpu
        return tuple(fused(query, key, value, 0.0, causal))
    if query.dtype in (torch.float16, torch.bfloat16):
        fused = aten._scaled_dot_product_flash_attention
        return tuple(fused(query, key, value, 0.0, causal))
    fused = aten._scaled_dot_product_efficient_attention
    return tuple(fused(query, key, value, None, True, 0.0, causal))
