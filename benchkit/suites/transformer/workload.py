"""The workload of a job: dtypes, tokens and operations of its passes."""

from dataclasses import dataclass

import torch

from benchkit.api.case import Work
from benchkit.api.groups import ModelConfig
from benchkit.suites.transformer.config import TransformerConfig
from benchkit.suites.transformer.flops import forward_flops, pass_flops, recomputed_flops


@dataclass(frozen=True)
class Workload:
    """What the passes of one job compute and hold.

    Attributes:
        config: the configuration of the suite.
        model: the sizes of the model.
        world_size: the number of ranks of the job.
    """

    config: TransformerConfig
    model: ModelConfig
    world_size: int

    @property
    def weight(self) -> torch.dtype:
        """The dtype of weights."""
        return torch.bfloat16 if self.config.dtype == "bfloat16" else torch.float32

    @property
    def activation(self) -> torch.dtype:
        """The dtype of activations."""
        return torch.float32 if self.config.dtype in ("float32", "tf32") else torch.bfloat16

    @property
    def tokens(self) -> int:
        """Tokens of one batch."""
        return self.config.batch_size * self.config.context_length

    def copies(self, ranks: int) -> int:
        """Counts the copies of the model that compute on these ranks, each with its own batch."""
        return ranks if self.config.parallel != "tp" else 1

    def flops(self, name: str, ranks: int, causal: bool = False, executed: bool = False) -> float:
        """Counts the floating-point operations of a pass on these ranks together.

        Args:
            name: the pass, one of `names.PASSES`.
            ranks: how many ranks take part.
            causal: count only the pairs of tokens that see each other.
            executed: count also what activation checkpointing computes again.
        """
        sizes = (self.model, self.config.batch_size, self.config.context_length, causal)
        recomputed = 0.0
        if executed and self.config.activation_checkpointing:
            recomputed = recomputed_flops(*sizes)
        return self.copies(ranks) * pass_flops(name, forward_flops(*sizes), recomputed)

    def work(self, name: str, ranks: int) -> Work:
        """Returns the operations of a pass as its case states them."""
        executed_flops = self.flops(name, ranks, executed=True)
        return Work(useful_flops=self.flops(name, ranks), executed_flops=executed_flops)
