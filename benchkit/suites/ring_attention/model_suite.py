"""Builds the cases of ring_model."""

from collections.abc import Iterator

import torch

from benchkit.api.case import Case, Rank
from benchkit.suites.ring_attention.attention import require_kernel
from benchkit.suites.ring_attention.cases import NO_TABLE
from benchkit.suites.ring_attention.config import head_dim, read_table
from benchkit.suites.ring_attention.decoder import Decoder
from benchkit.suites.ring_attention.model_cases import DecodeCase, ModelJob, PrefillCase
from benchkit.suites.ring_attention.model_config import RingModelConfig
from benchkit.suites.ring_attention.names import (
    ALL_GATHER,
    DECODE,
    EVEN,
    IMPLEMENTATION,
    LUT,
    PHASE,
    RING,
    SINGLE,
    STRATEGY,
    WHOLE,
)
from benchkit.suites.ring_attention.planner import Planner, doubts_of, fit_cost
from benchkit.suites.ring_attention.prefill import MODEL_REGIONS

Choice = tuple[str, str, str]
"""Phase, implementation and strategy of a case."""
BASELINE = (RING, EVEN)


def build(config: RingModelConfig, rank: Rank) -> list[Case]:
    """Builds the cases of a job, with the even ring as baseline of its phase."""
    choices = list(choices_of(config))
    if shortage := rank.memory_shortage(config.needed_bytes(rank.world_size)):
        return [Case(labels=labels_of(choice), skip=shortage) for choice in choices]
    job = job_of(config, rank)
    cases: dict[Choice, Case] = {}
    for choice in sorted(choices, key=lambda each: each[1:] != BASELINE):  # the baselines first
        cases[choice] = case_of(job, choice, cases.get((choice[0], *BASELINE)))
    return [cases[choice] for choice in choices]


def choices_of(config: RingModelConfig) -> Iterator[Choice]:
    """Yields the cases that a configuration asks for.

    Prefill with an all-gather leaves the cache of the ring, so decode has no such case.
    """
    for phase in config.phases:
        for implementation in config.implementations:
            if implementation == SINGLE:
                yield phase, SINGLE, WHOLE
            elif (phase, implementation) != (DECODE, ALL_GATHER):
                yield from ((phase, implementation, name) for name in config.strategies)


def labels_of(choice: Choice) -> dict[str, str | int | float]:
    """Returns the labels of a case."""
    return dict(zip((PHASE, IMPLEMENTATION, STRATEGY), choice, strict=True))


def job_of(config: RingModelConfig, rank: Rank) -> ModelJob:
    """Draws the model and measures what its splits need, which all ranks do together."""
    model = config.known_model()
    dtype = getattr(torch, config.dtype)
    require_kernel(rank.device, dtype, head_dim(model))
    length = config.seq_len + config.decode_tokens
    decoder = Decoder.random(model, length, dtype=dtype, device=rank.device, seed=rank.seed)
    first = decoder.layers[0]
    generator = torch.Generator().manual_seed(rank.seed)
    x = torch.randn(config.seq_len, model.d_model, generator=generator).to(rank.device, dtype)
    cost, speeds = fit_cost(first.attention, x, True, rank.seconds_of, first.feed_forward)
    table = read_table(config.lut, config.seq_len, config.dtype)
    planner = Planner(config.seq_len, config.align, rank.shares, table.performance, cost, speeds)
    doubts, new = doubts_of(table, rank), config.decode_tokens
    return ModelJob(rank.index, rank.world_size, decoder, planner, new, rank.seed, doubts)


def case_of(job: ModelJob, choice: Choice, baseline: Case | None) -> Case:
    """Builds one case."""
    phase, implementation, strategy = choice
    if strategy == LUT and not job.planner.table:
        return Case(labels=labels_of(choice), skip=NO_TABLE)
    kind = DecodeCase if phase == DECODE else PrefillCase
    running = kind(job, implementation, strategy)
    return Case(
        step=running.step,
        labels=labels_of(choice),
        verify=running.verify,
        regions=MODEL_REGIONS,
        details=running.details,
        # One rank's time beside the even ring's is no scaling efficiency: SINGLE has no baseline.
        baseline=None if implementation == SINGLE else baseline,
        ranks=1 if implementation == SINGLE else None,
        warnings=job.doubts if strategy == LUT else (),
    )
