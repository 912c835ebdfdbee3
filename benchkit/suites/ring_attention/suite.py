"""The suite ring_attention: a ring-attention layer over ranks of unequal speed."""

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

    width = config.num_heads * config.head_dim
    dtype = getattr(torch, config.dtype)
    # The float64 reference needs the most memory.
    exact_bytes = 8 * (8 * config.seq_len * width + 4 * width**2)
    if shortage := rank.memory_shortage(exact_bytes):
        return [
            Case(labels={"strategy": name}, name=name, skip=shortage) for name in config.strategies
        ]
    generator = torch.Generator().manual_seed(rank.seed)
    x = torch.randn(config.seq_len, width, generator=generator).to(rank.device, dtype)
    shape = (config.seq_len, config.num_heads, config.head_dim)
    layer = Layer.random(*shape, dtype=dtype, device=rank.device, seed=rank.seed + 1)
    cost, speeds = fit_cost(layer, x, config.causal, rank.seconds_of)
    table = lut.Table({}, config.seq_len)
    if config.lut:
        table = read_table(config.lut, config.seq_len, config.dtype)
    planner = Planner(config.seq_len, config.align, rank.shares, table.performance, cost, speeds)
    exact = Exact(layer, x, config.causal)
    shared = RingJob(rank.index, layer, x, config.causal, planner, exact)
    threads = torch.get_num_threads() if rank.device.type == "cpu" else None
    doubts = tuple(f"strategy lut: {doubt}" for doubt in table.doubts(rank.shares, threads))
    cases = [case_of(shared, strategy, config.strategies) for strategy in config.strategies]
    return [replace(case, warnings=doubts if case.name == "lut" else ()) for case in cases]


def case_of(shared: "RingJob", strategy: str, strategies: Sequence[str]) -> Case:
    """Builds the case of one strategy, with the even split as baseline if the job has it."""
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
        regions=REGIONS[:-1] if strategy == "torch" else REGIONS,  # torch's waiting is in COMPUTE
        observe=running.observe,
        details=running.details,
        name=strategy,
        against=BASELINE if strategy != BASELINE and BASELINE in strategies else "",
        unslowed=strategy == "reference",
    )
