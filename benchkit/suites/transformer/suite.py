"""Passes of a decoder-only language model."""

from typing import TYPE_CHECKING

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.transformer.config import TransformerConfig

if TYPE_CHECKING:
    from benchkit.suites.transformer.cases import TransformerJob

PRELOAD = ("benchkit.suites.transformer.cases", "torch._dynamo")
"""The first optimizer of a process imports torch._dynamo, which takes a second."""


@suite
def transformer(config: TransformerConfig, rank: Rank) -> list[Case]:
    """Time, memory and utilisation of a language model's forward, backward and training step."""
    from benchkit.suites.transformer.cases import TransformerJob

    job = TransformerJob(config, rank)
    cases: list[Case] = []
    for name in config.passes:
        cases += cases_of(job, name)
    return cases


def cases_of(training: "TransformerJob", name: str) -> list[Case]:
    """Return the cases of one pass: on all ranks and, where they share its work, its baselines.

    The baselines are the pass on one rank alone, and its communication alone. They are built first,
    since the pass on all ranks refers to them.
    """
    alone = communication = None
    if training.shared:
        alone, communication = training.case(name, 1), training.communication(name)
    together = training.case(name, training.rank.world_size, alone, communication)
    return [case for case in (together, alone, communication) if case is not None]
