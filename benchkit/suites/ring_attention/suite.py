"""The suites ring_attention and ring_model: a layer, or a decoder, over ranks of unequal speed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.ring_attention.config import (
    BASELINE,
    RingAttentionConfig,
    RingModelConfig,
    model_head_dim,
    model_heads,
    read_table,
)
from benchkit.suites.ring_attention.names import LUT, REFERENCE, STRATEGY, TORCH

if TYPE_CHECKING:
    from benchkit.suites.ring_attention.cases import RingJob

RESOLVERS = {"model_heads": model_heads, "model_head_dim": model_head_dim}
PRELOAD = ("benchkit.suites.ring_attention.cases", "torch.distributed.tensor")


@suite
def ring_attention(config: RingAttentionConfig, rank: Rank) -> list[Case]:
    """Time of a ring-attention layer over ranks of unequal speed, by how the sequence is split."""
    import torch

    from benchkit.suites.ring_attention.cases import RingJob
    from benchkit.suites.ring_attention.planner import Planner, doubts_of, fit_cost
    from benchkit.suites.ring_attention.ring import Exact, Layer, require_kernel

    width = config.num_heads * config.head_dim
    dtype = getattr(torch, config.dtype)
    if shortage := rank.memory_shortage(config.needed_bytes(rank.world_size)):
        return [Case(labels={STRATEGY: name}, skip=shortage) for name in config.strategies]
    require_kernel(rank.device, dtype, config.head_dim)
    generator = torch.Generator().manual_seed(rank.seed)
    x = torch.randn(config.seq_len, width, generator=generator).to(rank.device, dtype)
    shape = (config.seq_len, config.num_heads, config.head_dim)
    layer = Layer.random(*shape, dtype=dtype, device=rank.device, seed=rank.seed + 1)
    cost, speeds = fit_cost(layer, x, config.causal, rank.seconds_of)
    table = read_table(config.lut, config.seq_len, config.dtype)
    planner = Planner(config.seq_len, config.align, rank.shares, table.performance, cost, speeds)
    exact = Exact(layer, x, config.causal)
    doubts = doubts_of(table, rank)
    shared = RingJob(rank.index, layer, x, config.causal, planner, exact, doubts)
    return cases_of(shared, config.strategies)


@suite
def ring_model(config: RingModelConfig, rank: Rank) -> list[Case]:
    """Time to the first token and per token of a decoder whose sequence is split over the ranks."""
    from benchkit.suites.ring_attention import model_cases

    return model_cases.build(config, rank)


def cases_of(shared: "RingJob", strategies: Sequence[str]) -> list[Case]:
    """Build the case of each strategy, with the even split as baseline if the job has it."""
    cases: dict[str, Case] = {}
    for strategy in sorted(strategies, key=lambda name: name != BASELINE):  # the baseline first
        cases[strategy] = case_of(shared, strategy, cases.get(BASELINE))
    return [cases[strategy] for strategy in strategies]


def case_of(shared: "RingJob", strategy: str, baseline: Case | None) -> Case:
    """Build the case of one strategy."""
    from benchkit.suites.ring_attention.cases import RingCase
    from benchkit.suites.ring_attention.ring import REGIONS

    labels = {STRATEGY: strategy}
    if lack := shared.lacking(strategy):
        return Case(labels=labels, unavailable=lack)
    if why := shared.obstacle(strategy):
        return Case(labels=labels, skip=why)
    running = RingCase(shared, strategy)
    return Case(
        step=running.step,
        labels=labels,
        verify=running.verify,
        regions=REGIONS[:-1] if strategy == TORCH else REGIONS,  # torch's waiting is in COMPUTE
        observe=running.observe,
        details=running.details,
        baseline=baseline,
        unslowed=strategy == REFERENCE,
        warnings=shared.doubts if strategy == LUT else (),
    )
