"""The suite ring_model: a decoder on a split sequence, over ranks of unequal speed."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.case import Case, Rank
from benchkit.api.keys import (
    ModelConfig,
    Planned,
    RunConfig,
    check_model_heads,
    count_parameters,
    key,
    layer_parameters,
)
from benchkit.api.question import TIME, Comparison, Metric, Question
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import ITEM_BYTES
from benchkit.errors import ConfigError
from benchkit.suites.ring_attention.suite import (
    BALANCED,
    DTYPES,
    EVEN,
    FORMULA,
    LUT,
    STRATEGY,
    UNEVEN,
    WORDS,
    ZIGZAG,
    check_kernels,
    head_dim,
    read_table,
)

PHASE, IMPLEMENTATION = "phase", "implementation"  # labels of a case, beside STRATEGY
PREFILL, DECODE = "prefill", "decode"
PHASES = (PREFILL, DECODE)
RING, ALL_GATHER, SINGLE = "ring", "all_gather", "single"
IMPLEMENTATIONS = (RING, ALL_GATHER, SINGLE)  # SINGLE: only the first rank computes
WHOLE = "whole"
STRATEGIES = (EVEN, UNEVEN, LUT, FORMULA, BALANCED, ZIGZAG)
"""Values of STRATEGY, beside WHOLE."""

SCORES = 3 * 256
"""Numbers of the float64 reference per token and head: some queries' scores, three times."""


Choice = tuple[str, str, str]


@dataclass
class RingModelConfig(RunConfig):
    uses_model: ClassVar[bool] = True
    probes: ClassVar[int] = 3

    seq_len: int = key("tokens of the prompt", unit="tokens", at_least=1)
    decode_tokens: int = key("tokens of a call of decode", unit="tokens", at_least=1)
    dtype: str = key("of weights, activations and what is sent", choices=DTYPES)
    align: int = key("splits are at multiples of so many tokens", unit="tokens", at_least=1)
    phases: list[str] = key("what is timed, each with cases of its own", choices=PHASES)
    implementations: list[str] = key("how attention gets its keys", choices=IMPLEMENTATIONS)
    strategies: list[str] = key("how the sequence is split", choices=STRATEGIES)
    lut: str | None = key(
        "table for strategy lut, performance by compute share: CSV of matmul_lut, or of latencies"
    )

    def known_model(self) -> ModelConfig:
        if self.model is None:
            raise ConfigError("model=null: choose a size, such as model=tiny")
        return self.model

    def planned(self, world_size: int) -> list[Planned]:
        """Return the cases; each token that is decoded reads all weights."""
        model = self.known_model()
        weights, length = float(count_parameters(model)), self.seq_len
        attended = 2.0 * model.num_layers * model.d_model * length**2
        prefill = Planned(flops=(2 * weights * length + attended) / world_size, group=PREFILL)
        read_bytes = weights * ITEM_BYTES[self.dtype] * self.decode_tokens
        steps = 2 * model.num_layers * self.decode_tokens
        decode = Planned(copied_bytes=read_bytes, steps=steps, group=DECODE)
        of_phase = {PREFILL: prefill, DECODE: decode}
        return [of_phase[phase] for phase, *_ in self.choices()]

    def choices(self) -> list[Choice]:
        """Return the cases: phase, implementation and strategy of each.

        Prefill with an all-gather leaves the cache of the ring, so decode has no such case.
        """
        triples: list[Choice] = []
        for phase, implementation in itertools.product(self.phases, self.implementations):
            if implementation == SINGLE:
                triples.append((phase, SINGLE, WHOLE))
            elif (phase, implementation) != (DECODE, ALL_GATHER):
                triples += [(phase, implementation, name) for name in self.strategies]
        return triples

    def needed_bytes(self, world_size: int) -> float:
        """Return the bytes of weights, a whole cache for each case, and the reference."""
        model = self.known_model()
        length = self.seq_len + self.decode_tokens
        cache = 2.0 * model.num_layers * length * model.d_model
        model_bytes = ITEM_BYTES[self.dtype] * (
            count_parameters(model) + len(self.choices()) * cache
        )
        per_token = 12 * model.d_model + 4 * model.d_ff + SCORES * model.num_heads
        tables = layer_parameters(model) + model.vocab_size * model.d_model
        return model_bytes + 8.0 * (length * per_token + tables)

    def check(self) -> None:
        super().check()
        model = self.known_model()
        check_model_heads(model)
        read_table(self.lut, self.seq_len, self.dtype)
        width = f"model.num_heads={model.num_heads}, head_dim"
        check_kernels(self.hardware.device, self.dtype, head_dim(model), width)
        if isinstance(self.world_size, int) and self.seq_len < self.world_size:
            raise ConfigError(
                f"seq_len={self.seq_len}: allowed is at least a token for each of "
                f"world_size={self.world_size} ranks"
            )


CASES = "benchkit.suites.ring_model.cases"
PRELOAD = (CASES, "torch.distributed.tensor")


QUESTION = Question(
    problem=(PHASE, "slowdown", "seq_len", "model", "dtype", "world_size"),
    comparisons=(
        Comparison((IMPLEMENTATION, STRATEGY), baseline={STRATEGY: EVEN, IMPLEMENTATION: "ring"}),
    ),
    metrics=(TIME, Metric("tokens_per_second", "", "tokens/s")),
    scaling_columns=("slowdown", "seq_len"),
    words={**WORDS, f"{IMPLEMENTATION}={ALL_GATHER}": "all-gather"},
)


@suite
def ring_model(config: RingModelConfig, rank: Rank) -> list[Case]:
    """Time to the first token and per token of a decoder whose sequence ranks share."""
    return cases_in(CASES, config, rank)
