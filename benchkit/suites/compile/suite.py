"""The suite compile: after how many calls compiled code has made up for its compilation."""

from dataclasses import dataclass
from typing import ClassVar, Union

from benchkit.api.case import Case, Rank
from benchkit.api.keys import COLD as FIRST_CALLS
from benchkit.api.keys import (
    ModelConfig,
    Planned,
    RunConfig,
    check_model_heads,
    key,
    require_consistent_value,
)
from benchkit.api.question import Comparison, Metric, Question
from benchkit.api.registry import cases_in, suite
from benchkit.errors import ConfigError, Reason

EAGER, AOT_EAGER, CUDA_GRAPH = "eager", "aot_eager", "cuda_graph"
DEFAULT, REDUCE_OVERHEAD, MAX_AUTOTUNE = "default", "reduce-overhead", "max-autotune"
INDUCTOR = (DEFAULT, REDUCE_OVERHEAD, MAX_AUTOTUNE)
"""Modes of torch.compile with its backend inductor, the only one with a cache on disk."""
CACHE_FOLDER = "TORCHINDUCTOR_CACHE_DIR"  # variable
COMPILERS = (EAGER, AOT_EAGER, *INDUCTOR, CUDA_GRAPH)
COMPILING_S = {AOT_EAGER: 3.0, DEFAULT: 15.0, REDUCE_OVERHEAD: 15.0, MAX_AUTOTUNE: 30.0}
"""Seconds that a first call takes to compile, roughly."""
COMPILER, CACHE, DYNAMIC = "compiler", "cache", "dynamic"
"""Keys in which a case differs from its eager case."""
BATCH_SIZES = "batch_sizes"  # label: the values of that key, joined by commas
COLD, WARM = "cold", "warm"
MATMUL_CHAIN, MLP, POINTWISE, BRANCHING = "matmul_chain", "mlp", "pointwise", "branching"
TRANSFORMER_LAYER = "transformer_layer"
WORKLOADS = (MATMUL_CHAIN, MLP, POINTWISE, BRANCHING, TRANSFORMER_LAYER)
COMPILE_S, RECOMPILE_S = "compile_s", "recompile_s"
"""Details: seconds of compilation within the first call, and within all later calls, as torch
counts them, of the slowest rank. They are absent if nothing counts them."""
GRAPHS, GRAPH_BREAKS, RECOMPILATIONS = "graphs", "graph_breaks", "recompilations"
CACHE_HITS, CACHE_MISSES = "cache_hits", "cache_misses"
"""Details: of rank 0, in inductor's cache on disk."""
COMPILED_AT = "compiled_at_calls"  # detail: the calls that compiled, from 1, as text
CALLS_PER_SIZE = "calls_per_size"
"""Detail: the calls of each of `batch_sizes` but the last, which has the rest."""


@dataclass
class CompileConfig(RunConfig):
    uses_model: ClassVar[bool] = True

    workload: str = key("what a step computes", choices=WORKLOADS)
    compiler: str = key(
        "eager; a backend or a mode of torch.compile; or a CUDA graph of eager code",
        choices=COMPILERS,
    )
    cache: str = key(
        "inductor's cache on disk: empty, or filled by another process before", choices=(COLD, WARM)
    )
    dynamic: Union[bool, str] = key(  # noqa: UP007 (OmegaConf 2.3 reads typing.Union only)
        "whether sizes are symbols in compiled code; auto: those that have changed",
        choices=("auto", "true", "false"),
    )
    batch_sizes: list[int] = key(
        "rows of the input; of several, each has an equal part of the calls", at_least=1
    )
    width: int = key("features of a row; those of a model where one is chosen", at_least=1)
    depth: int = key("layers", at_least=1)
    context_length: int = key("tokens of a row of transformer_layer", unit="tokens", at_least=1)
    backward: bool = key("whether a step computes gradients, too")
    dtype: str = key("element type", choices=("float32", "bfloat16"))

    def title(self) -> str:
        passes = "forward and backward" if self.backward else "forward"
        return f"{self.workload} {passes} by {self.compiler}"

    def planned(self, world_size: int) -> list[Planned]:
        """Return the one case; the number of compilations is that of input sizes."""
        tokens = self.context_length if self.workload == TRANSFORMER_LAYER else 1
        products = 12 if self.workload == TRANSFORMER_LAYER else 1
        rows = max(self.batch_sizes) * tokens * self.depth * (3 if self.backward else 1)
        first_s = COMPILING_S.get(self.compiler, 0.0) * min(2, len(self.batch_sizes))
        return [
            Planned(
                flops=2.0 * rows * products * self.width**2,
                copied_bytes=16.0 * rows * self.width,
                first_s=first_s * (2 if self.cache == WARM else 1),
            )
        ]

    def idle_keys(self) -> dict[str, str]:
        reasons = super().idle_keys()
        if self.compiler not in INDUCTOR:
            reasons[CACHE] = f"compiler={self.compiler} has no cache on disk"
        if self.compiler in (EAGER, CUDA_GRAPH):
            reasons[DYNAMIC] = f"compiler={self.compiler} compiles nothing"
        if self.workload != TRANSFORMER_LAYER:
            reasons["context_length"] = f"workload={self.workload} has no tokens"
        return reasons

    def unsuited(self) -> Reason:
        return graphs_missing(self.compiler, self.hardware.device) or super().unsuited()

    def check(self) -> None:
        super().check()
        if self.workload == TRANSFORMER_LAYER and self.model is None:
            raise ConfigError(f"model=null: workload={TRANSFORMER_LAYER} needs one: model=small")
        if self.model is not None:
            check_model_heads(self.model)
            owner = f"model={self.model.name}"
            require_consistent_value("width", self.width, owner, self.model.d_model, "d_model")
        if self.compiler in INDUCTOR and CACHE_FOLDER in self.backend.env:
            raise ConfigError(
                f"backend.env.{CACHE_FOLDER}={self.backend.env[CACHE_FOLDER]}: allowed is to leave "
                "it out: each point has an empty folder of its own"
            )
        self._check_sizes()

    def _check_sizes(self) -> None:
        number, calls = len(self.batch_sizes), self.measure.max_iterations
        if number == 1:
            return
        if self.measure.mode != FIRST_CALLS:
            raise ConfigError(
                f"batch_sizes={self.batch_sizes}: allowed with measure.mode="
                f"{self.measure.mode} is one size; several need measure=cold_curve"
            )
        if number > calls:
            raise ConfigError(
                f"batch_sizes={self.batch_sizes}: allowed are at most "
                f"measure.max_iterations={calls} sizes"
            )


def graphs_missing(compiler: str, device: str) -> Reason:
    if compiler in (REDUCE_OVERHEAD, CUDA_GRAPH) and device != "cuda":
        return f"compiler={compiler}: CUDA graphs need hardware.device=cuda"
    return ""


def model_width(model: ModelConfig | None, default: int) -> int:
    return default if model is None else model.d_model


RESOLVERS = {"model_width": model_width}
CASES = "benchkit.suites.compile.cases"
PRELOAD = (CASES,)  # no compiler: loading it is a part of the first call


QUESTION = Question(
    problem=("workload", "batch_sizes", "width", "depth", "context_length", "backward", "dtype"),
    comparisons=(
        Comparison((COMPILER, CACHE, DYNAMIC), baseline={COMPILER: EAGER}),
        Comparison((CACHE,), baseline={CACHE: "cold"}),
    ),
    metrics=(
        Metric("warm_s", "", "ms", 1e3, is_higher_better=False),
        Metric("first_call_s", "first call", "ms", 1e3, is_higher_better=False),
    ),
    scaling_columns=("batch_sizes",),
    words={"batch_sizes": "batch {}"},
    next_steps={
        "": "After how many calls it pays: measure=cold_curve, then compile.md of the report"
    },
)


@suite
def compile(config: CompileConfig, rank: Rank) -> list[Case]:
    """First step, compile time, steady state and recompilations, against eager."""
    return cases_in(CASES, config, rank)
