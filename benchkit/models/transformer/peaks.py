"""The rate that utilisation is told against: of the data sheet where conf/hardware knows the GPU, else measured."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchkit.case import Rank
from benchkit.config import ModelConfig

SQUARE = {"cpu": 2048, "cuda": 8192}


@dataclass(frozen=True)
class Peak:
    """FLOP/s of each rank, and in words where they are from."""

    flop_per_s: list[float]
    source: str

    def of(self, ranks: int) -> float:
        """Of the first so many ranks together."""
        return sum(self.flop_per_s[:ranks])


def peak(table: Mapping[str, Mapping[str, float]], dtype: str, model: ModelConfig, tokens: int, rank: Rank) -> Peak:
    """What each rank could do at most in a dtype of the suite; all ranks together."""
    name = torch.cuda.get_device_name(rank.device) if rank.device.type == "cuda" else ""
    entry = entry_of(table, name)
    rate = table[entry].get("bfloat16" if dtype == "autocast" else dtype) if entry else None
    if rate:
        return Peak([rate * 1e12 * share / 100 for share in rank.shares], f"data sheet of {entry}")
    return Peak(best_matmul(dtype, model, tokens, rank), "best matrix product here")


def entry_of(table: Mapping[str, Any], device_name: str) -> str:
    """The longest entry whose words stand in a device's name: "A100" in "NVIDIA A100-SXM4-80GB"; "" where none does."""
    found = [entry for entry in table if re.search(rf"\b{re.escape(entry)}\b", device_name)]
    return max(found, key=len, default="")


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
