"""A ring-attention layer over ranks of unequal speed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchkit.api import lut
from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.ring_attention.config import BASELINE, RingAttentionConfig, read_table

if TYPE_CHECKING:
    from benchkit.suites.ring_attention.cases import RingJob

PRELOAD = ("benchkit.suites.ring_attention.cases", "torch.distributed.tensor")


@suite
def ring_attention(config: RingAttentionConfig, rank: Rank) -> list[Case]:
    """Time of a ring-attention layer over ranks of unequal speed, by how the sequence is split."""
    import torch

    from benchkit.suites.ring_attention.attention import Exact, Layer
    from benchkit.suites.ring_attention.cases import RingJob
    from benchkit.suites.ring_attention.planner import Planner, fit_cost

    width, dtype = config.num_heads * config.head_dim, getattr(torch, config.dtype)
    exact_bytes = 8 * (8 * config.seq_len * width + 4 * width**2)  # the float64 reference needs the most
    if shortage := rank.memory_shortage(exact_bytes):
        return [Case(labels={"strategy": name}, name=name, skip=shortage) for name in config.strategies]
    generator = torch.Generator().manual_seed(rank.seed)
    x = torch.randn(config.seq_len, width, generator=generator).to(rank.device, dtype)
    shape = (config.seq_len, config.num_heads, config.head_dim)
    layer = Layer.random(*shape, dtype=dtype, device=rank.device, seed=rank.seed + 1)
    cost, speeds = fit_cost(layer, x, config.causal, rank.seconds_of)
    table = read_table(config.lut, config.seq_len, config.dtype) if config.lut else lut.Table({}, config.seq_len)
    planner = Planner(config.seq_len, config.align, rank.shares, table.performance, cost, speeds)
    shared = RingJob(rank.index, layer, x, config.causal, planner, Exact(layer, x, config.causal))
    doubts = table.doubts(rank.shares, torch.get_num_threads() if rank.device.type == "cpu" else None)
    warnings = {"lut": tuple(f"strategy lut: {doubt}" for doubt in doubts)}
    cases = [case_of(shared, strategy, config.strategies) for strategy in config.strategies]
    return [replace(case, warnings=warnings.get(case.name, ())) for case in cases]


def case_of(shared: "RingJob", strategy: str, strategies: Sequence[str]) -> Case:
    """The case of one strategy; compared with the even split where that is one of the job's strategies."""
    from benchkit.suites.ring_attention.cases import RingCase
    from benchkit.suites.ring_attention.ring import REGIONS

    labels = {"strategy": strategy}
    if why := shared.obstacle(strategy):
        return Case(labels=labels, name=strategy, skip=why)
    running = RingCase(shared, strategy)
    return Case(
        step=running.step,
        labels=labels,
        verify=running.verify,
        regions=REGIONS[:-1] if strategy == "torch" else REGIONS,  # it does not tell its waiting apart
        observe=running.observe,
        details=running.details,
        name=strategy,
        against=BASELINE if strategy != BASELINE and BASELINE in strategies else "",
        unslowed=strategy == "reference",
    )
