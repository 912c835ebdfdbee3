"""Passes of a decoder-only language model."""

from typing import TYPE_CHECKING

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.transformer.config import TransformerConfig

if TYPE_CHECKING:
    from benchkit.suites.transformer.cases import TransformerJob

PRELOAD = ("benchkit.suites.transformer.cases",)


@suite
def transformer(config: TransformerConfig, rank: Rank) -> list[Case]:
    """Time of a language model's forward pass, backward pass and training step, with its memory and utilisation."""
    from benchkit.suites.transformer.cases import TransformerJob

    training = TransformerJob(config, rank)
    return [case for name in config.passes for case in cases_of(training, name)]


def cases_of(training: "TransformerJob", name: str) -> list[Case]:
    """A pass on all ranks; where they share its work also on one alone, and what they send alone."""
    cases = [training.case(name, training.rank.world_size)]
    if training.config.parallel != "none" and training.rank.world_size > 1:
        cases += [training.case(name, 1), *training.communication(name)]
    return cases
