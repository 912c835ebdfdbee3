"""Splits of a sequence by strategy, and the cost model that ours go by, measured with the kernels they are for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.p2p import InFlight
from benchkit.api.regions import COMPUTE
from benchkit.suites.ring_attention import balancing, splits
from benchkit.suites.ring_attention.attention import Layer, attend, by_head, merge
from benchkit.suites.ring_attention.ring import PROJECT, Ring
from benchkit.suites.ring_attention.splits import CostModel, Split

SecondsOf = Callable[..., list[list[float]]]
PROBE_QUERIES, LONGEST_PROBE = 512, 8192
TURNS: Mapping[str, Any] = {"turn": 0.05, "turns": 21}
"""All of `measure.probe_seconds` for each call: with a third of it, the cost of a pair varied by 22 % (std)."""
WORTH_MOVING = 0.05
"""A split moves only where its slowest rank would be faster by more than this: each measured time is a little off."""
ALIKE = 0.05
"""Ranks that differ by less count as equally fast: a split that follows the noise of a probe is slower than even."""
LEAST_TRUST = 0.2
"""The weight of the last step in what is believed of a rank's speed; the first steps are averaged, the first is all."""


def fit_cost(layer: Layer, x: Tensor, causal: bool, seconds_of: SecondsOf) -> tuple[CostModel, list[float]]:
    """Cost per pair and per token on the fastest rank, and every rank's speed in relation to it.

    Three probes: the whole layer over a short sequence, the attention of some queries over many keys, and keys and
    values passed on round the ring.
    """
    length, num_keys = min(len(x), 2048), min(max(len(x) // 2, 1), LONGEST_PROBE)
    alone = Ring(layer, x[:length], splits.even(length, [1.0]), 0, causal)
    positions = torch.arange(num_keys, device=x.device)
    queries, key_value = layer.project(x[:num_keys], positions)
    query, key, value = by_head(queries[:PROBE_QUERIES]), by_head(key_value[:, 0]), by_head(key_value[:, 1])
    into = attend(query, key, value, False)
    passed = key_value[: max(1, len(x) // dist.get_world_size())]

    layer_s, block_s, pass_s = seconds_of(
        alone.step, lambda: merge(into, attend(query, key, value, False)), passing_on(passed), **TURNS
    )
    fastest = min(layer_s)
    pair_s = block_s[layer_s.index(fastest)] / (query.shape[2] * num_keys)
    pairs = CostModel(causal=causal).pairs((0, length), length)
    token_s = max(0.0, fastest - pair_s * pairs) / length
    cost = CostModel(pair_s, token_s, causal, pass_s=max(pass_s) / len(passed))
    return cost, [1.0 if time <= (1 + ALIKE) * fastest else fastest / time for time in layer_s]


def passing_on(block: Tensor) -> Callable[[], None]:
    """Sends a block to the next rank and receives one from the rank before; nothing where there is but one."""
    rank, size, incoming = dist.get_rank(), dist.get_world_size(), torch.empty_like(block)
    in_flight = InFlight(1)

    def step() -> None:
        if size > 1:
            in_flight.start(0, [(block, (rank + 1) % size)], [(incoming, (rank - 1) % size)], None)
            in_flight.wait(0)

    return step


@dataclass(frozen=True)
class Planner:
    """What is known before a split is made. shares: percent of a device per rank; speeds: the measured ones."""

    seq_len: int
    align: int
    shares: Sequence[float]
    table: Mapping[float, float]
    cost: CostModel
    speeds: Sequence[float]

    def split(self, strategy: str) -> Split:
        """The split of one strategy; `online` starts even, `reference` stays so."""
        if strategy == "uneven":
            return splits.uneven(self.seq_len, self.shares, self.align)
        if strategy == "lut":
            return splits.looked_up(self.seq_len, self.shares, self.table, self.align)
        if strategy == "formula":
            return splits.formula(self.seq_len, self.shares, self.align)
        if strategy == "balanced":
            return balancing.balanced(self.seq_len, self.speeds, self.cost, self.align)
        if strategy == "zigzag":
            return splits.zigzag(self.seq_len, self.speeds, self.align)
        return splits.even(self.seq_len, self.speeds)

    def busy_s(self, split: Split) -> list[float]:
        """Seconds that each rank should be busy."""
        return splits.predict(split, self.speeds, self.cost)

    def step_s(self, split: Split) -> float:
        """Seconds that a step should take, waiting included."""
        return max(balancing.ring_s(split, self.speeds, self.cost))

    def at_full_speed(self) -> "Planner":
        """The same where nobody is slowed down: all as fast as the fastest."""
        return replace(self, speeds=[1.0] * len(self.speeds))

    def ideal_s(self) -> float:
        """All the work over all the speed."""
        return splits.ideal_s(self.seq_len, self.speeds, self.cost)


@dataclass
class Online:
    """A split that follows the busy times of the steps; the same on all ranks."""

    planner: Planner
    device: torch.device
    current: Split = field(init=False)
    steps: int = 0

    def __post_init__(self) -> None:
        self.planner = replace(self.planner, speeds=[1.0] * len(self.planner.shares))
        self.current = self.planner.split("even")

    def observe(self, regions_s: Mapping[str, float]) -> bool:
        """Takes in this rank's busy time of a step, exchanges it, and says whether the split moved."""
        busy = torch.tensor([regions_s[PROJECT] + regions_s[COMPUTE]], dtype=torch.float64, device=self.device)
        gathered = [torch.empty_like(busy) for _ in self.planner.speeds]
        dist.all_gather(gathered, busy)
        return self.follow([float(each) for each in gathered])

    def follow(self, busy_s: Sequence[float]) -> bool:
        """Moves the split where the busy times of all ranks say that it is worth it."""
        self.steps += 1
        old, trust = self.planner.speeds, max(LEAST_TRUST, 1 / self.steps)
        seen = splits.measured_speeds(self.current, busy_s, self.planner.cost, old)
        self.planner = replace(self.planner, speeds=[a + trust * (b - a) for a, b in zip(old, seen, strict=True)])
        better = self.planner.split("balanced")
        stay_s, move_s = (self.planner.step_s(split) for split in (self.current, better))
        if move_s > (1 - WORTH_MOVING) * stay_s:
            return False
        self.current = replace(better, strategy="online")
        return True
