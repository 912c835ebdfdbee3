"""torch's own ring attention, to have something to compare with: even splits, zigzag order where it is causal.

As torch sets it by default, keys and values are gathered from all ranks at once, not passed round.
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
"""What torch's function is called with, by name: it is private, and its arguments may change."""


def missing(seq_len: int, world_size: int, dtype: torch.dtype) -> str:
    """Why torch's cannot be run; "" where it can."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

        attention, _ = attrgetter("_templated_ring_attention", "_cp_options.enable_load_balance")(theirs)
        inspect.signature(attention).bind(**dict.fromkeys(ARGUMENTS))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        return f"torch {torch.__version__} has no ring attention to compare with ({error})"
    if dtype == torch.float64:
        return "torch's ring attention merges blocks in float32"
    if seq_len % (2 * world_size):
        return f"torch's ring attention needs a multiple of {2 * world_size} tokens, not {seq_len}"
    return ""


class TorchRing:
    """One rank's part of the layer, with the attention done by torch (its `context_parallel` calls the same)."""

    def __init__(self, layer: Layer, x: Tensor, split: Split, rank: int, causal: bool) -> None:
        """split: even; zigzag where it is causal, as torch has no other."""
        self.positions = torch.cat([torch.arange(*piece, device=x.device) for piece in split.pieces[rank]])
        self.layer, self.x, self.causal = layer, x[self.positions], causal

    def step(self) -> Tensor:
        """The layer's output for this rank's tokens: [L, E]."""
        from torch.distributed.tensor.experimental._context_parallel import _attention as theirs

        with region(PROJECT):
            rotated, key_value = self.layer.project(self.x, self.positions)
            query, key, value = (by_head(part) for part in (rotated, key_value[:, 0], key_value[:, 1]))
        theirs._cp_options.enable_load_balance = self.causal
        given = dict(zip(ARGUMENTS, (dist.group.WORLD, 2, kernel, query, key, value, self.causal), strict=True))
        with region(COMPUTE):  # its waiting is in it: it does not tell them apart
            out, *_ = theirs._templated_ring_attention(**given)
        with region(PROJECT):
            return self.layer.finish(out)


def kernel(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """The fused kernel of the device, as torch's own code wants to call it."""
    aten, causal = torch.ops.aten, options["is_causal"]
    if query.device.type == "cpu":
        return tuple(aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, 0.0, causal))
    if query.dtype in (torch.float16, torch.bfloat16):
        return tuple(aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal))
    return tuple(aten._scaled_dot_product_efficient_attention(query, key, value, None, True, 0.0, causal))
