"""The rate that utilisation is told against: of the data sheet where conf/hardware knows the GPU, else measured."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchkit.api.case import Rank
from benchkit.api.gather import gather_json
from benchkit.api.schema import ModelConfig

SQUARE = {"cpu": 2048, "cuda": 8192}


OTHERS = ("MIG", "Laptop", "Ti", "D", "SUPER", "Max-Q")
"""Words that make a name another GPU's, or a slice of one, where an entry does not have them."""


@dataclass(frozen=True)
class Peak:
    """FLOP/s of each rank while all compute, of the first alone, and in words where they are from."""

    flop_per_s: list[float]
    alone: float
    source: str

    def of(self, ranks: int) -> float:
        """Of so many ranks together: all, or the first alone."""
        return self.alone if ranks == 1 else sum(self.flop_per_s)


def peak(config: Any, tokens: int, rank: Rank) -> Peak:
    """What each rank could do at most in the dtype of the suite; all ranks together."""
    table: Mapping[str, Mapping[str, float]] = config.hardware.peak_tflop_per_s
    name = torch.cuda.get_device_name(rank.device) if rank.device.type == "cuda" else ""
    entry = entry_of(table, name)
    mine = table[entry].get("bfloat16" if config.dtype == "autocast" else config.dtype) if entry else None
    told = gather_json([entry, mine])  # the ranks' GPUs may be unlike
    rates = [rate * 1e12 for _, rate in told if rate]
    if len(rates) == rank.world_size:
        flop_per_s = [rate * share / 100 for rate, share in zip(rates, rank.shares, strict=True)]
        unshared = rank.sharers if max(rank.shares) * rank.sharers >= 100 else 1  # MPS keeps its share even so
        sheets = " and ".join(dict.fromkeys(entry for entry, _ in told))
        return Peak(flop_per_s, flop_per_s[0] * unshared, f"data sheet of {sheets}")
    measured = best_matmul(config.dtype, config.model, tokens, rank)
    return Peak(measured, measured[0], "best matrix product here")


def entry_of(table: Mapping[str, Any], device_name: str) -> str:
    """The longest entry whose words stand in a device's name: "A100" in "NVIDIA A100-SXM4-80GB"; "" where none does."""
    found = [entry for entry in table if has_words(entry, device_name)]
    best = max(found, key=len, default="")
    return "" if any(has_words(word, device_name) and not has_words(word, best) for word in OTHERS) else best


def has_words(words: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(words)}\b", text) is not None


def best_matmul(dtype: str, model: ModelConfig, tokens: int, rank: Rank) -> list[float]:
    """FLOP/s of each rank at the best of the model's own products and a square one, while all ranks multiply."""
    real = torch.bfloat16 if dtype in ("bfloat16", "autocast") else torch.float32
    size = SQUARE[rank.device.type]
    shapes = {(tokens, model.d_model, model.d_ff), (tokens, model.d_model, model.vocab_size), (size, size, size)}
    best = [0.0] * rank.world_size
    for rows, inner, columns in sorted(shapes):
        left = torch.randn(rows, inner, device=rank.device).to(real)
        right = torch.randn(inner, columns, device=rank.device).to(real)
        [times] = rank.seconds_of(lambda left=left, right=right: left @ right)
        rates = [2.0 * rows * inner * columns / seconds for seconds in times]
        best = [max(pair) for pair in zip(best, rates, strict=True)]
    return best
