"""The rate of 100 % utilisation: of the data sheet in conf/hardware, else measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchkit.api.case import MEASURED_PEAK, Rank
from benchkit.api.keys import COLD, ModelConfig
from benchkit.api.lut import entry_of
from benchkit.api.p2p import all_gather_json

SQUARE = {"cpu": 2048, "cuda": 8192}


@dataclass(frozen=True)
class Peak:
    """FLOP/s of each rank while all compute, and of the first while only it computes."""

    flop_per_s: list[float]
    alone: float
    source: str

    def of(self, ranks: int) -> float:
        """Return the FLOP/s of all ranks together, or of the first if `ranks` is 1."""
        return self.alone if ranks == 1 else sum(self.flop_per_s)


def peak(config: Any, tokens: int, rank: Rank) -> Peak | None:
    """Return the peak rate of each rank in the dtype of the suite; all ranks call this together.

    None without a data sheet if first calls are timed: measuring the rate would warm up.
    """
    table: Mapping[str, Mapping[str, float]] = config.hardware.peak_tflop_per_s
    name = torch.cuda.get_device_name(rank.device) if rank.device.type == "cuda" else ""
    entry = entry_of(table, name)
    dtype = "bfloat16" if config.dtype == "autocast" else config.dtype
    mine = table[entry].get(dtype) if entry else None
    entries = all_gather_json([entry, mine])  # the GPUs of the ranks may differ
    # A single rank has all of a GPU that ranks share by time slices.
    unshared = rank.sharers if rank.device.type == "cuda" and not rank.by_mps else 1
    rates = [rate * 1e12 for _, rate in entries if rate]
    if len(rates) == rank.world_size:
        flop_per_s = [rate * share / 100 for rate, share in zip(rates, rank.shares, strict=True)]
        sheets = " and ".join(dict.fromkeys(entry for entry, _ in entries))
        return Peak(flop_per_s, flop_per_s[0] * unshared, f"data sheet of {sheets}")
    if config.measure.mode == COLD:
        return None
    measured = best_matmul(config.dtype, config.model, tokens, rank)
    return Peak(measured, measured[0] * unshared, MEASURED_PEAK)


def best_matmul(dtype: str, model: ModelConfig, tokens: int, rank: Rank) -> list[float]:
    """Measure matrix products on all ranks at once and return each rank's best FLOP/s."""
    real = torch.bfloat16 if dtype in ("bfloat16", "autocast") else torch.float32
    size = SQUARE[rank.device.type]
    shapes = {
        (tokens, model.d_model, model.d_ff),
        (tokens, model.d_model, model.vocab_size),
        (size, size, size),
    }
    best = [0.0] * rank.world_size
    for rows, inner, columns in sorted(shapes):
        left = torch.randn(rows, inner, device=rank.device).to(real)
        right = torch.randn(inner, columns, device=rank.device).to(real)
        [times] = rank.seconds_of(lambda left=left, right=right: left @ right)
        rates = [2.0 * rows * inner * columns / seconds for seconds in times]
        best = [max(pair) for pair in zip(best, rates, strict=True)]
    return best
