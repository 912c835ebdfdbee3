"""The configuration of ring_model: a whole decoder with its sequence split over the ranks."""

from dataclasses import dataclass
from typing import ClassVar

from benchkit.api.groups import ModelConfig, check_model_heads
from benchkit.api.keys import key
from benchkit.api.parameters import layer_parameters, parameters
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.suites.ring_attention.config import DTYPES, check_kernels, head_dim, read_table
from benchkit.suites.ring_attention.names import IMPLEMENTATIONS, MODEL_STRATEGIES, PHASES

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
SCORES = 3 * 256
"""Numbers of the float64 reference per token and head: some queries' scores, three times."""


@dataclass
class RingModelConfig(RunConfig):
    uses_model: ClassVar[bool] = True

    seq_len: int = key("tokens of the prompt", unit="tokens", at_least=1)
    decode_tokens: int = key("tokens of a call of decode", unit="tokens", at_least=1)
    dtype: str = key("of weights, activations and what is sent", choices=DTYPES)
    align: int = key("splits are at multiples of so many tokens", unit="tokens", at_least=1)
    phases: list[str] = key("what is timed, each with cases of its own", choices=PHASES)
    implementations: list[str] = key("how attention gets its keys", choices=IMPLEMENTATIONS)
    strategies: list[str] = key("how the sequence is split", choices=MODEL_STRATEGIES)
    lut: str | None = key(
        "table for strategy lut, performance by compute share: CSV of matmul_lut, or of latencies"
    )

    def known_model(self) -> ModelConfig:
        """Returns the model; raises ConfigError where none is chosen."""
        if self.model is None:
            raise ConfigError("model=null: choose a size, such as model=tiny")
        return self.model

    def most_cases(self) -> int:
        return len(self.phases) * (2 * len(self.strategies) + 1)

    def needed_bytes(self, world_size: int) -> float:
        """Returns what a rank needs at most.

        These are the weights, a cache of the whole sequence for each case, and the float64
        reference.
        """
        model = self.known_model()
        length = self.seq_len + self.decode_tokens
        cache = 2.0 * model.num_layers * length * model.d_model
        own = BYTES[self.dtype] * (parameters(model) + self.most_cases() * cache)
        per_token = 12 * model.d_model + 4 * model.d_ff + SCORES * model.num_heads
        tables = layer_parameters(model) + model.vocab_size * model.d_model
        return own + 8.0 * (length * per_token + tables)

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
