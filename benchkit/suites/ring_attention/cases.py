"""A strategy at work: a ring under its split, checked against the definition, moved where it is online."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benchkit.api import p2p
from benchkit.errors import InvalidResult
from benchkit.suites.ring_attention.attention import Exact, Layer
from benchkit.suites.ring_attention.planner import Online, Planner
from benchkit.suites.ring_attention.ring import Ring
from benchkit.suites.ring_attention.torch_reference import TorchRing, missing

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.2}
"""Largest error as a share of the row's largest value: what rounding was seen to do, with room; wrong keys do more."""
SAMPLED_ROWS = 6


@dataclass(frozen=True)
class RingJob:
    """What the strategies of one job share."""

    rank: int
    layer: Layer
    x: Tensor
    causal: bool
    planner: Planner
    exact: Exact

    def obstacle(self, strategy: str) -> str:
        """Why a strategy cannot run here; "" where it can."""
        if strategy == "lut" and not self.planner.table:
            return "no table: lut=FILE, as `sweep=rebalance_lut` and analysis write it"
        if strategy == "zigzag" and not self.causal:
            return "zigzag balances causal attention"
        return missing(len(self.x), len(self.planner.speeds), self.x.dtype) if strategy == "torch" else ""


class RingCase:
    """The case of one strategy on one rank."""

    def __init__(self, shared: RingJob, strategy: str) -> None:
        self._shared, self._strategy, self._turn = shared, strategy, 0
        self._online = Online(shared.planner, p2p.exchange_device(shared.x.device)) if strategy == "online" else None
        if strategy == "torch":
            exactly_even = replace(shared.planner.at_full_speed(), align=1)
            self._split = exactly_even.split("zigzag" if shared.causal else "even")
        else:
            self._split = shared.planner.split(strategy)
        self._ring = self._ring_of(shared.x)

    def _ring_of(self, x: Tensor) -> Ring | TorchRing:
        make = TorchRing if self._strategy == "torch" else Ring
        return make(self._shared.layer, x, self._split, self._shared.rank, self._shared.causal)

    def step(self) -> Tensor:
        return self._ring.step()

    def observe(self, regions_s: Mapping[str, float]) -> None:
        """Lets an online split follow the last step."""
        if self._online and self._online.observe(regions_s):
            self._split = self._online.current
            self._ring = self._ring_of(self._shared.x)

    def verify(self) -> None:
        """Compares rows at the ends of this rank's pieces and some between, for fresh signs of all tokens."""
        x, self._turn = self._shared.x, self._turn + 1
        signs = torch.randint(0, 2, (len(x),), generator=torch.Generator().manual_seed(self._turn)) * 2 - 1
        signs = signs.to(x.device, x.dtype)
        ring = self._ring_of(x * signs.unsqueeze(-1))
        output, there = ring.step(), ring.positions
        if not len(there):
            return
        pieces = self._split.pieces[self._shared.rank]
        ends = [position for start, end in pieces if end > start for position in (start, end - 1)]
        chosen = torch.cat([torch.tensor(ends, device=x.device), there[torch.randint(len(there), (SAMPLED_ROWS,))]])
        rows = torch.searchsorted(there, chosen)  # positions are in order
        expected = self._shared.exact.rows(chosen, signs)
        error = (output[rows].double() - expected).abs().amax(1) / expected.abs().amax(1)
        wrong = ~(error <= TOLERANCES[x.dtype])
        if wrong.any():
            first = int(wrong.nonzero()[0])
            raise InvalidResult(f"output of token {int(chosen[first])} is off by {float(error[first]):.2g} of its size")

    def details(self) -> Mapping[str, Any]:
        """Tokens and predicted busy time of each rank, the predicted time, that of a perfect split, and its costs."""
        planner = self._shared.planner.at_full_speed() if self._strategy == "reference" else self._shared.planner
        fixed = self._strategy not in ("torch", "online")  # what moves by its own times predicts nothing
        return {
            "tokens": self._split.tokens,
            "busy_predicted_s": planner.busy_s(self._split) if fixed else None,
            "predicted_s": planner.step_s(self._split) if fixed else None,
            "ideal_s": planner.ideal_s(),
            **{name: getattr(planner.cost, name) for name in ("pair_s", "token_s", "pass_s")},
            "speed": list(self._online.planner.speeds if self._online else planner.speeds),
        }
