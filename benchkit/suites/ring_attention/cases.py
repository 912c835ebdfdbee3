"""A strategy as a case: a ring under its split, checked against the layer's definition.

An online split moves between steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from benchkit.api import p2p, verification
from benchkit.api.case import Call
from benchkit.api.details import IDEAL_S, PREDICTED_S
from benchkit.api.device_mesh import dtensor_missing
from benchkit.api.device_wait import wait_for_device
from benchkit.errors import InvalidResult
from benchkit.suites.ring_attention.attention import Exact, Layer
from benchkit.suites.ring_attention.names import EVEN, LUT, ONLINE, REFERENCE, TOKENS, TORCH, ZIGZAG
from benchkit.suites.ring_attention.planner import Online, Planner
from benchkit.suites.ring_attention.ring import Ring
from benchkit.suites.ring_attention.torch_reference import TorchRing, missing

TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 0.03, torch.bfloat16: 0.2}
"""Largest error as a share of the row's largest value.

The limits leave room above the rounding errors that were observed; wrong keys cause larger errors.
"""
SAMPLED_ROWS = 6
NO_TABLE = "no table: lut=FILE, as `sweep=rebalance_lut` and analysis write it"


@dataclass(frozen=True)
class RingJob:
    """What the strategies of one job have in common; `doubts` are about the table of `lut`."""

    rank: int
    layer: Layer
    x: Tensor
    causal: bool
    planner: Planner
    exact: Exact
    doubts: tuple[str, ...] = ()

    def lacking(self, strategy: str) -> str:
        """Returns what this machine lacks for a strategy; "" if nothing."""
        return dtensor_missing(self.x.device) if strategy == TORCH else ""

    def obstacle(self, strategy: str) -> str:
        """Returns why a strategy cannot run here; "" if it can."""
        if strategy == LUT and not self.planner.table:
            return NO_TABLE
        if strategy == ZIGZAG and not self.causal:
            return "zigzag balances causal attention"
        if strategy == TORCH:
            return missing(len(self.x), len(self.planner.speeds), self.x.dtype)
        return ""


class RingCase:
    """The case of one strategy on one rank."""

    def __init__(self, shared: RingJob, strategy: str) -> None:
        self._shared = shared
        self._strategy = strategy
        self._turn = 0
        self._online: Online | None = None
        if strategy == ONLINE:
            self._online = Online(shared.planner, p2p.exchange_device(shared.x.device))
        if strategy == TORCH:
            exactly_even = replace(shared.planner.at_full_speed(), align=1)
            self._split = exactly_even.split(ZIGZAG if shared.causal else EVEN)
        else:
            self._split = shared.planner.split(strategy)
        self._ring = self._ring_of(shared.x)

    def _ring_of(self, x: Tensor) -> Ring | TorchRing:
        make = TorchRing if self._strategy == TORCH else Ring
        return make(self._shared.layer, x, self._split, self._shared.rank, self._shared.causal)

    def step(self) -> Tensor:
        return self._ring.step()

    def observe(self, regions_s: Mapping[str, float]) -> None:
        """Lets an online split follow the last step."""
        if self._online and self._online.observe(regions_s):
            self._split = self._online.current
            self._ring = self._ring_of(self._shared.x)

    def verify(self, call: Call) -> None:
        """Compares rows of this rank with the definition, for new signs of all tokens.

        The rows are those at the ends of its pieces and some random ones.
        """
        x = self._shared.x
        self._turn += 1
        generator = torch.Generator().manual_seed(self._turn)
        signs = torch.randint(0, 2, (len(x),), generator=generator) * 2 - 1
        signs = signs.to(x.device, x.dtype)
        ring = self._ring
        positions = ring.positions
        ring.x.copy_(x[positions] * signs[positions].unsqueeze(-1))
        output = verification.returned(call())
        ring.x.copy_(x[positions])
        wait_for_device(output)
        if not len(positions):
            return
        ends: list[int] = []
        for start, end in self._split.pieces[self._shared.rank]:
            if end > start:
                ends.extend((start, end - 1))
        sampled = positions[torch.randint(len(positions), (SAMPLED_ROWS,))]
        chosen = torch.cat([torch.tensor(ends, device=x.device), sampled])
        rows = torch.searchsorted(positions, chosen)  # positions are in order
        expected = self._shared.exact.rows(chosen, signs)
        error = (output[rows].double() - expected).abs().amax(1) / expected.abs().amax(1)
        wrong = ~(error <= TOLERANCES[x.dtype])
        if wrong.any():
            first = int(wrong.nonzero()[0])
            token, share = int(chosen[first]), float(error[first])
            raise InvalidResult(f"output of token {token} is off by {share:.2g} of its size")

    def details(self) -> Mapping[str, Any]:
        """Returns the tokens, predicted times, costs and speeds of the split for the record.

        The ideal time is that of a perfect split. The online split has no prediction, since it
        follows its own times, and neither has torch's.
        """
        planner = self._shared.planner
        if self._strategy == REFERENCE:
            planner = planner.at_full_speed()
        predicted = self._strategy not in (TORCH, ONLINE)
        return {
            TOKENS: self._split.tokens,
            "busy_predicted_s": planner.busy_s(self._split) if predicted else None,
            PREDICTED_S: planner.step_s(self._split) if predicted else None,
            IDEAL_S: planner.ideal_s(),
            "pair_s": planner.cost.pair_s,
            "token_s": planner.cost.token_s,
            "pass_s": planner.cost.pass_s,
            "speed": list(self._online.planner.speeds if self._online else planner.speeds),
        }
