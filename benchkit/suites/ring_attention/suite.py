"""The suite ring_attention: a layer over ranks of unequal speed."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from benchkit.api import lut
from benchkit.api.case import Case, Rank
from benchkit.api.keys import (
    ModelConfig,
    Planned,
    RunConfig,
    check_model_heads,
    key,
    require_consistent_value,
)
from benchkit.api.question import TIME, Comparison, Metric, Question
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import ITEM_BYTES
from benchkit.errors import ConfigError

STRATEGY = "strategy"  # label of a case: how the sequence is split
REFERENCE, EVEN, UNEVEN, LUT, FORMULA = "reference", "even", "uneven", "lut", "formula"
BALANCED, ZIGZAG, ONLINE, TORCH = "balanced", "zigzag", "online", "torch"
STRATEGIES = (REFERENCE, EVEN, UNEVEN, LUT, FORMULA, BALANCED, ZIGZAG, ONLINE, TORCH)
"""REFERENCE is an even split on ranks without slowdown, TORCH torch's own."""
TOKENS = "tokens"

DTYPES = ("float16", "bfloat16", "float32", "float64")
GPU_HEAD_DIMS = {"float16": (8, 256), "bfloat16": (8, 256), "float32": (4, 65536)}
"""By dtype: a divisor of a head's width in torch's attention kernels on GPUs, and the most. The
kernels are flash attention for half precision, else memory-efficient attention."""


@dataclass
class RingAttentionConfig(RunConfig):
    uses_model: ClassVar[bool] = True
    probes: ClassVar[int] = 3

    seq_len: int = key("tokens of the whole sequence", unit="tokens", at_least=1)
    num_heads: int = key("attention heads", at_least=1)
    head_dim: int = key("width of a head; even, for rotary positions", at_least=2)
    dtype: str = key("of weights, inputs and what is sent", choices=DTYPES)
    causal: bool = key("whether a query sees only what comes before it")
    align: int = key("splits are at multiples of so many tokens", unit="tokens", at_least=1)
    strategies: list[str] = key(
        "how the sequence is split, each a case of the job", choices=STRATEGIES
    )
    lut: str | None = key(
        "table for strategy lut, performance by compute share: CSV of matmul_lut, or of latencies"
    )

    def planned(self, world_size: int) -> list[Planned]:
        width = self.num_heads * self.head_dim
        pairs = self.seq_len**2 / (2 if self.causal else 1)
        flops = (8.0 * self.seq_len * width**2 + 4.0 * pairs * width) / world_size
        sent_bytes = 2.0 * self.seq_len * width * ITEM_BYTES[self.dtype]
        work = partial(Planned, flops=flops, sent_bytes=sent_bytes, group="all")
        slow = (EVEN, ZIGZAG, TORCH)
        chosen = [name for name in self.strategies if name != LUT or self.lut]
        return [work(labels=f"{STRATEGY}={name}", by_speed=name not in slow) for name in chosen]

    def needed_bytes(self, world_size: int) -> float:
        """Return the bytes of a rank's float64 reference; all else needs less."""
        width = self.num_heads * self.head_dim
        return 8.0 * (8 * self.seq_len * width + 4 * width**2)

    def check(self) -> None:
        super().check()
        if self.model is not None:
            check_model_heads(self.model)
            owner = f"model={self.model.name}"
            require_consistent_value("num_heads", self.num_heads, owner, self.model.num_heads)
            require_consistent_value("head_dim", self.head_dim, owner, head_dim(self.model))
        if self.head_dim % 2:
            raise ConfigError(f"head_dim={self.head_dim}: allowed are even numbers")
        check_kernels(self.hardware.device, self.dtype, self.head_dim, "head_dim")
        read_table(self.lut, self.seq_len, self.dtype)


def check_kernels(device: str, dtype: str, width: int, name: str) -> None:
    """Raise ConfigError where a device has no attention kernel for this dtype and width."""
    if device == "cpu" and dtype == "float16":
        raise ConfigError("dtype=float16: allowed on a cpu are bfloat16, float32 and float64")
    if device != "cuda":
        return
    if dtype == "float64":
        raise ConfigError("dtype=float64: allowed on a GPU are float16, bfloat16 and float32")
    step, most = GPU_HEAD_DIMS[dtype]
    if width % step or width > most:
        raise ConfigError(
            f"{name}={width}: allowed on a GPU with dtype={dtype} are "
            f"multiples of {step} up to {most}"
        )


def head_dim(model: ModelConfig) -> int:
    return model.d_model // max(1, model.num_heads)


def model_heads(model: ModelConfig | None, default: int) -> int:
    return default if model is None else model.num_heads


def model_head_dim(model: ModelConfig | None, default: int) -> int:
    return default if model is None else head_dim(model)


def read_table(path: str | None, seq_len: int, dtype: str) -> lut.Table:
    """Read a table, empty without a path; raise ConfigError with the key."""
    if path is None:
        return lut.Table({}, seq_len)
    try:
        return lut.read(path, seq_len, dtype)
    except ValueError as error:
        raise ConfigError(f"lut={path}: {error}") from None


CASES = "benchkit.suites.ring_attention.cases"
PRELOAD = (CASES, "torch.distributed.tensor")
RESOLVERS = {"model_heads": model_heads, "model_head_dim": model_head_dim}


OF_IDEAL = Metric("efficiency", "of ideal", "%", 100)
WORDS = {"seq_len": "{} tokens", "slowdown": "slowdown {}", "world_size": "{} ranks"}
QUESTION = Question(
    problem=("slowdown", "seq_len", "num_heads", "head_dim", "dtype", "causal", "world_size"),
    comparisons=(
        Comparison((STRATEGY,), baseline={STRATEGY: EVEN}, bounds={STRATEGY: REFERENCE}),
        Comparison(("align",), baseline={"align": 32}),
    ),
    metrics=(TIME, OF_IDEAL),
    scaling_columns=("slowdown", "seq_len"),
    words=WORDS,
    terms={
        "slowdown": "how many times as slow the last rank is made",
        "uneven": "by speed",
        "lut": "by a table of speeds",
        "balanced": "by speed and causal work",
        "zigzag": "balanced in two pieces a rank",
        "online": "balanced by the times of the ranks",
        "torch": "its own ring attention",
        "of ideal": "as if the ranks' speeds added up",
    },
    next_steps={"slowdown": "hardware.slowdown=1,2,4"},
)


@suite
def ring_attention(config: RingAttentionConfig, rank: Rank) -> list[Case]:
    """Ring attention over ranks of unequal speed, by how the sequence is split."""
    return cases_in(CASES, config, rank)
