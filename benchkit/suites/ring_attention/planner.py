"""Plan each strategy's split with a cost model that is measured with the real kernels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.case import Rank, SecondsOf, noop
from benchkit.api.lut import Table
from benchkit.api.memory import wait_for_device
from benchkit.api.p2p import InFlight
from benchkit.api.regions import COMPUTE
from benchkit.suites.ring_attention import splits
from benchkit.suites.ring_attention.ring import (
    PROJECT,
    AttentionLayer,
    Ring,
    attend,
    by_head,
    merge,
)
from benchkit.suites.ring_attention.splits import CostModel, Split
from benchkit.suites.ring_attention.suite import (
    BALANCED,
    EVEN,
    FORMULA,
    LUT,
    ONLINE,
    UNEVEN,
    ZIGZAG,
)

PROBE_QUERIES, LONGEST_PROBE = 512, 8192


def block_probe(layer: AttentionLayer, x: Tensor) -> tuple[Callable[[], None], Tensor, int]:
    """Return a call that attends over a block of keys, all keys and values, and its pairs."""
    num_keys = min(max(len(x) // 2, 1), LONGEST_PROBE)
    queries, key_value = layer.project(x[:num_keys], torch.arange(num_keys, device=x.device))
    query = by_head(queries[:PROBE_QUERIES])
    key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
    into = attend(query, key, value, False)

    def attend_block() -> None:
        merge(into, attend(query, key, value, False))

    return attend_block, key_value, query.shape[2] * num_keys


def make_pass_step(block: Tensor) -> Callable[[], None]:
    """Return a call that passes a block on round the ring."""
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    incoming = torch.empty_like(block)
    in_flight = InFlight(1)

    def step() -> None:
        if size > 1:
            in_flight.start(0, [(block, after)], [(incoming, before)], None)
            in_flight.wait(0)

    return step


TURN, TURNS = 0.05, 21
"""Each call gets all of `measure.probe_seconds`: with a third, a pair's cost varied by 22 %."""
WORTH_MOVING = 0.05
"""A split moves only if its slowest rank gains more, since measured times have noise."""
ALIKE = 0.05
"""Ranks whose times differ by less are equally fast: a split by noise is slower than even."""
LEAST_TRUST = 0.2
"""Least weight of the last step in a rank's estimated speed; the first are averaged."""


def fit_cost(
    layer: AttentionLayer,
    x: Tensor,
    causal: bool,
    seconds_of: SecondsOf,
    then: Callable[[Tensor], object] = noop,
) -> tuple[CostModel, list[float]]:
    """Measure a layer's cost model on the fastest rank, and every rank's speed relative to it.

    The three probes are the whole layer over a short sequence, the attention of some queries over
    many keys, and keys and values passed on round the ring. `x` has all tokens [N, E]. `then`
    follows the layer's output, token by token, such as a feed-forward layer.
    """
    length = min(len(x), 2048)
    single_ring = Ring(layer, x[:length], splits.even(length, [1.0]), 0, causal)
    attend_block, key_value, block_pairs = block_probe(layer, x)
    passed = key_value[: max(1, len(x) // dist.get_world_size())]

    def whole_layer() -> None:
        then(single_ring.step())

    layer_s, block_s, pass_s = seconds_of(
        whole_layer, attend_block, make_pass_step(passed), turn=TURN, turns=TURNS
    )
    fastest_s = min(layer_s)
    pair_s = block_s[layer_s.index(fastest_s)] / block_pairs
    pairs = CostModel(causal=causal).pairs((0, length), length)
    token_s = max(0.0, fastest_s - pair_s * pairs) / length
    cost = CostModel(pair_s, token_s, causal, pass_s=max(pass_s) / len(passed))
    equal_s = (1 + ALIKE) * fastest_s
    return cost, [1.0 if seconds <= equal_s else fastest_s / seconds for seconds in layer_s]


def doubts_of(table: Table, rank: Rank) -> tuple[str, ...]:
    threads = torch.get_num_threads() if rank.device.type == "cpu" else None
    return tuple(f"strategy lut: {doubt}" for doubt in table.doubts(rank.shares, threads))


@dataclass(frozen=True)
class RingPlanner:
    """Makes the split of each strategy.

    Shares are of a device in percent, speeds relative to the fastest rank. The table has
    performance by share. Boundaries are multiples of `align` tokens.
    """

    seq_len: int
    align: int
    shares: Sequence[float]
    table: Mapping[float, float]
    cost: CostModel
    speeds: Sequence[float]

    def split(self, strategy: str) -> Split:
        if strategy == UNEVEN:
            return splits.uneven(self.seq_len, self.shares, self.align)
        if strategy == LUT:
            return splits.looked_up(self.seq_len, self.shares, self.table, self.align)
        if strategy == FORMULA:
            return splits.formula(self.seq_len, self.shares, self.align)
        if strategy == BALANCED:
            return splits.balanced(self.seq_len, self.speeds, self.cost, self.align)
        if strategy == ZIGZAG:
            return splits.zigzag(self.seq_len, self.speeds, self.align)
        return splits.even(self.seq_len, self.speeds)

    def busy_s(self, split: Split) -> list[float]:
        return splits.predict(split, self.speeds, self.cost)

    def step_s(self, split: Split) -> float:
        return max(splits.ring_s(split, self.speeds, self.cost))

    def at_full_speed(self) -> "RingPlanner":
        return replace(self, speeds=[1.0] * len(self.speeds))

    def ideal_s(self) -> float:
        return splits.ideal_s(self.seq_len, self.speeds, self.cost)


@dataclass
class Online:
    """A split that follows the busy times of the steps; the same on all ranks."""

    planner: RingPlanner
    device: torch.device
    current: Split = field(init=False)
    steps: int = 0

    def __post_init__(self) -> None:
        self.planner = replace(self.planner, speeds=[1.0] * len(self.planner.shares))
        self.current = self.planner.split(EVEN)

    def observe(self, regions_s: Mapping[str, float]) -> bool:
        """All-gather the busy times of a step; return whether the split moved."""
        busy_s = regions_s[PROJECT] + regions_s[COMPUTE]
        local_s = torch.tensor([busy_s], dtype=torch.float64, device=self.device)
        gathered = [torch.empty_like(local_s) for _ in self.planner.speeds]
        dist.all_gather(gathered, local_s)
        wait_for_device(local_s)
        return self.follow([float(value) for value in gathered])

    def follow(self, busy_s: Sequence[float]) -> bool:
        """Move the split if all ranks' busy times promise enough gain; return whether it did."""
        self.steps += 1
        trust = max(LEAST_TRUST, 1 / self.steps)
        old = self.planner.speeds
        seen = splits.measured_speeds(self.current, busy_s, self.planner.cost, old)
        speeds = [a + trust * (b - a) for a, b in zip(old, seen, strict=True)]
        self.planner = replace(self.planner, speeds=speeds)
        better = self.planner.split(BALANCED)
        stay_s, move_s = self.planner.step_s(self.current), self.planner.step_s(better)
        if move_s > (1 - WORTH_MOVING) * stay_s:
            return False
        self.current = replace(better, strategy=ONLINE)
        return True
