"""A strategy as a case: a ring under its split, checked against the layer's definition."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import p2p, torch_internals, verification
from benchkit.api.case import IDEAL_S, PREDICTED_S, Call, Case, Details, Rank
from benchkit.api.drawing import uniform, whole
from benchkit.api.memory import wait_for_device
from benchkit.api.p2p import dtensor_missing
from benchkit.api.regions import COMPUTE, WAIT, region
from benchkit.errors import Reason
from benchkit.suites.ring_attention.planner import Online, RingPlanner, doubts_of, fit_cost
from benchkit.suites.ring_attention.reference import ExactLayer, compare, unseen_keys
from benchkit.suites.ring_attention.ring import (
    PROJECT,
    REGIONS,
    AttentionLayer,
    Partial,
    Ring,
    RingAttention,
    by_head,
    require_kernel,
)
from benchkit.suites.ring_attention.splits import Split
from benchkit.suites.ring_attention.suite import (
    EVEN,
    LUT,
    ONLINE,
    REFERENCE,
    STRATEGY,
    TOKENS,
    TORCH,
    ZIGZAG,
    RingAttentionConfig,
    read_table,
)


def torch_ring_missing(seq_len: int, world_size: int, dtype: torch.dtype) -> Reason:
    if reason := torch_internals.ring_attention_missing():
        return reason
    if dtype == torch.float64:
        return "torch's ring attention merges blocks in float32"
    if seq_len % (2 * world_size):
        return f"torch's ring attention needs a multiple of {2 * world_size} tokens, not {seq_len}"
    return ""


class TorchRing:
    """The layer's attention in torch's `context_parallel`, one rank's part.

    Torch requires an even split, or a causal one in zigzag.
    """

    def __init__(
        self, layer: AttentionLayer, x: Tensor, split: Split, rank: int, causal: bool
    ) -> None:
        pieces = split.pieces[rank]
        self.positions = torch.cat([torch.arange(*piece, device=x.device) for piece in pieces])
        self.layer = layer
        self.x = x[self.positions]
        self.causal = causal

    def step(self) -> Tensor:
        with region(PROJECT):
            rotated, key_value = self.layer.project(self.x, self.positions)
            query = by_head(rotated)
            key, value = by_head(key_value[:, 0]), by_head(key_value[:, 1])
        with region(COMPUTE):  # includes the waiting, which torch does not separate
            out = torch_internals.attend_in_ring(query, key, value, self.causal)
        with region(PROJECT):
            return self.layer.finish(out)


SAMPLED_ROWS = 6
NO_TABLE = "no table: lut=FILE, as `sweep=rebalance_lut` and analysis write it"


@dataclass(frozen=True)
class RingJob:
    """Shared state of the strategies of a job; `doubts` are about the table of `lut`."""

    rank: int
    layer: AttentionLayer
    x: Tensor
    causal: bool
    planner: RingPlanner
    exact: ExactLayer
    doubts: tuple[str, ...] = ()

    def lacking(self, strategy: str) -> Reason:
        return dtensor_missing(self.x.device) if strategy == TORCH else ""

    def obstacle(self, strategy: str) -> Reason:
        if strategy == LUT and not self.planner.table:
            return NO_TABLE
        if strategy == ZIGZAG and not self.causal:
            return "zigzag balances causal attention"
        if strategy == TORCH:
            return torch_ring_missing(len(self.x), len(self.planner.speeds), self.x.dtype)
        return ""


class RingCase:
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
        if self._online and self._online.observe(regions_s):
            self._split = self._online.current
            self._ring = self._ring_of(self._shared.x)

    def verify(self, call: Call) -> None:
        """Compare rows of this rank with the definition, for new signs of all tokens.

        The rows are the first and last of its pieces, and some random ones.
        """
        x = self._shared.x
        self._turn += 1
        generator = torch.Generator().manual_seed(self._turn)
        signs = torch.randint(0, 2, (len(x),), generator=generator) * 2 - 1
        signs = signs.to(x.device, x.dtype)
        ring = self._ring
        positions = ring.positions
        ring.x.copy_(x[positions] * signs[positions].unsqueeze(-1))
        output = verification.require_tensor(call())
        ring.x.copy_(x[positions])
        wait_for_device(output)
        if not len(positions):
            return
        edges: list[int] = []
        for start, end in self._split.pieces[self._shared.rank]:
            if end > start:
                edges.extend((start, end - 1))
        sampled = positions[torch.randint(len(positions), (SAMPLED_ROWS,))]
        chosen = torch.cat([torch.tensor(edges, device=x.device), sampled])
        rows = torch.searchsorted(positions, chosen)  # positions are in order
        expected = self._shared.exact.rows(chosen, signs)
        compare(output[rows], expected, "output of token", chosen.tolist())

    def details(self) -> Details:
        """Return the split with its costs.

        The online split follows its own times and has no prediction, and neither has torch's.
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


def cases_of(config: RingAttentionConfig, rank: Rank) -> list[Case]:
    width = config.num_heads * config.head_dim
    dtype = getattr(torch, config.dtype)
    if shortage := rank.memory_shortage(config.needed_bytes(rank.world_size)):
        return [Case(labels={STRATEGY: name}, skip=shortage) for name in config.strategies]
    require_kernel(rank.device, dtype, config.head_dim)
    tokens = whole(config.seq_len, width)
    x = uniform(tokens, key=rank.seed, device=rank.device, variance=1).to(dtype)
    shape = (config.seq_len, config.num_heads, config.head_dim)
    layer = AttentionLayer.random(*shape, dtype=dtype, device=rank.device, seed=rank.seed + 1)
    cost, speeds = fit_cost(layer, x, config.causal, rank.seconds_of)
    table = read_table(config.lut, config.seq_len, config.dtype)
    planner = RingPlanner(
        config.seq_len, config.align, rank.shares, table.performance, cost, speeds
    )
    exact = ExactLayer(layer, x, config.causal)
    doubts = doubts_of(table, rank)
    job = RingJob(rank.index, layer, x, config.causal, planner, exact, doubts)
    cases: dict[str, Case] = {}
    for strategy in sorted(config.strategies, key=lambda name: name != EVEN):  # the baseline first
        cases[strategy] = case_of(job, strategy, cases.get(EVEN))
    return [cases[strategy] for strategy in config.strategies]


def case_of(job: RingJob, strategy: str, baseline: Case | None) -> Case:
    labels = {STRATEGY: strategy}
    if missing := job.lacking(strategy):
        return Case(labels=labels, unavailable=missing)
    if reason := job.obstacle(strategy):
        return Case(labels=labels, skip=reason)
    ring_case = RingCase(job, strategy)
    return Case(
        step=ring_case.step,
        labels=labels,
        verify=ring_case.verify,
        regions=REGIONS[:-1] if strategy == TORCH else REGIONS,  # torch's waiting is in COMPUTE
        observe=ring_case.observe,
        details=ring_case.details,
        baseline=baseline,
        unslowed=strategy == REFERENCE,
        warnings=job.doubts if strategy == LUT else (),
        unchecked=unseen_keys(len(job.planner.speeds), job.x.dtype),
    )


class GatheredAttention(RingAttention):
    """The ring's blocks, computed after one all-gather of all keys."""

    def attend(self, query: Tensor, own_block: Tensor) -> Tensor:
        with region(WAIT):
            gathered = self._gather(own_block)
        result: Partial | None = None
        with region(COMPUTE):
            for turn, blocks in enumerate(self.blocks):
                key_value = gathered[(self.rank - turn) % self.world_size]
                for block in blocks:
                    result = self._add(result, query, key_value, block)
        return query if result is None else result[0]

    def _gather(self, own_block: Tensor) -> list[Tensor]:
        """Return the keys and values of each rank [L of the rank, 2, H, D].

        All ranks send as many tokens as the longest part, since gloo gathers equal sizes.
        """
        padded = own_block.new_zeros(max(self.lengths), *own_block.shape[1:])
        padded[: len(own_block)] = own_block
        gathered = [torch.empty_like(padded) for _ in self.lengths]
        dist.all_gather(gathered, padded)
        return [
            padded_part[:length] for padded_part, length in zip(gathered, self.lengths, strict=True)
        ]
