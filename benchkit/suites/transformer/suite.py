"""The suite transformer: passes of a decoder-only language model, their operations and memory.

T tokens in sequences of s; d = d_model, f = d_ff, V = vocab_size. Operations are those of matrix
products, two per multiply-add. Norms, softmax, rotary positions and the optimizer are not counted,
as is usual.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from benchkit.api.case import PEAK_TFLOP_PER_S, Case, Rank
from benchkit.api.keys import (
    ModelConfig,
    Planned,
    RunConfig,
    check_model_heads,
    count_parameters,
    key,
    layer_parameters,
)
from benchkit.api.question import FIRST, LEAST, TIME, Comparison, Metric, Question
from benchkit.api.regions import BACKWARD as BACKWARD
from benchkit.api.regions import FORWARD as FORWARD
from benchkit.api.registry import cases_in, suite
from benchkit.errors import ConfigError
from benchkit.suites.transformer.data import check_ids

PASS, RANKS, PART = "pass", "ranks", "part"  # labels of a case
WHOLE, COMMUNICATION = "whole", "communication"
"""Values of PART: the whole pass, or only its communication."""
LOSS, OPTIMIZER = "loss", "optimizer"
PHASES = (FORWARD, LOSS, BACKWARD, OPTIMIZER)
FORWARD_BACKWARD, TRAIN_STEP = "forward_backward", "train_step"
PASSES = (FORWARD, FORWARD_BACKWARD, TRAIN_STEP)  # the shortest first
PARAMETERS, PEAK_BYTES = "parameters", "peak_bytes"
RESERVED_BYTES, OUTSIDE_BYTES = "reserved_bytes", "outside_bytes"
"""Details of a GPU's memory in bytes: the peak that torch's allocator reserved, and what was in use
outside of it."""


def forward_flops(model: ModelConfig, batch_size: int, context_length: int, causal: bool) -> float:
    """Count the operations of one forward pass.

    Per layer 2 T (4 d^2 + 3 d f) + 4 d x pairs, and 2 T d V for the head: PaLM (2204.02311),
    appendix B, which counts every pair. `causal` counts only the pairs of tokens that see each
    other.
    """
    tokens = batch_size * context_length
    pairs = tokens * (context_length + 1) / 2 if causal else tokens * context_length
    weights = layer_parameters(model) - 2 * model.d_model  # without the norms, which are vectors
    per_layer = 2.0 * tokens * weights + 4.0 * model.d_model * pairs
    return model.num_layers * per_layer + 2.0 * tokens * model.d_model * model.vocab_size


def recomputed_flops(
    model: ModelConfig, batch_size: int, context_length: int, causal: bool
) -> float:
    """Count what checkpointing computes again: all but the last product of each layer."""
    tokens = batch_size * context_length
    head = 2.0 * tokens * model.d_model * model.vocab_size
    down = 2.0 * tokens * model.d_model * model.d_ff
    forward = forward_flops(model, batch_size, context_length, causal)
    return forward - head - model.num_layers * down


def pass_flops(name: str, forward: float, again: float = 0.0) -> float:
    return forward if name == FORWARD else 3 * forward + again


@dataclass(frozen=True)
class Footprint:
    """The memory of one rank, in bytes.

    `weight` and `activation` are bytes of an element. With `naive_attention` all scores are kept,
    as the kernel `math` does, too. `gathered` is the largest number of weights that are gathered
    at a time. With `autocast` there is a copy of each weight in bfloat16.
    """

    model: ModelConfig
    batch_size: int
    context_length: int
    weight: int
    activation: int
    naive_attention: bool = False
    checkpointing: bool = False
    shards: int = 1
    gathered: int = 0
    autocast: bool = False

    def of(self, name: str) -> int:
        """Estimate the peak of a pass, within some 20 % (tests/suites/test_transformer.py)."""
        weights = (
            count_parameters(self.model) * self.weight // self.shards + self.gathered * self.weight
        )
        copied = 2 * count_parameters(self.model) if self.autocast else 0
        if name == FORWARD:
            return weights + copied + max(self.forward_bytes(), self.check_bytes(copies=1))
        states = 2 if name == TRAIN_STEP else 0  # AdamW's two moments
        saved = self.saved_bytes()
        checking = saved // self.batch_size + self.check_bytes(copies=3)
        return weights * (2 + states) + copied + max(saved, checking)

    def check_bytes(self, copies: int) -> int:
        """Estimate the memory of the check: copies of half a layer or a table in float64."""
        model = self.model
        widest = max(4 * model.d_model, 3 * model.d_ff, model.vocab_size)
        return copies * 8 * model.d_model * widest

    def forward_bytes(self) -> int:
        """Estimate the peak of one forward pass: the feed-forward layer's, or the logits."""
        tokens, model = self.batch_size * self.context_length, self.model
        inner = tokens * (2 * model.d_model + 3 * model.d_ff) * self.activation
        logits = tokens * (model.d_model + model.vocab_size) * self.activation
        return max(inner + self.score_bytes(), logits)

    def saved_bytes(self) -> int:
        """Estimate the memory that forward saves for backward.

        Counted from the graph, per layer: two norms keep input and output. Attention keeps its
        rotated q, k, v, its output, and the inputs of its projections. The feed-forward layer keeps
        gate, its activation, up and their product. Then come the logits, and what the loss keeps.
        """
        tokens, model = self.batch_size * self.context_length, self.model
        per_layer = (
            tokens * (10 * model.d_model + 4 * model.d_ff) * self.activation + self.score_bytes()
        )
        if self.autocast:
            per_layer += tokens * 6 * model.d_model * 4  # residual sums stay in float32
        if not self.checkpointing:
            return model.num_layers * per_layer + self.loss_bytes()
        inputs = model.num_layers * tokens * model.d_model * self.activation
        return per_layer + inputs + self.loss_bytes()

    def loss_bytes(self) -> int:
        logits = self.batch_size * self.context_length * self.model.vocab_size
        return 3 * logits * max(4, self.activation)

    def score_bytes(self) -> int:
        """Estimate the memory of naive attention per layer: scores and weights of every pair."""
        pairs = self.batch_size * self.context_length**2 * self.model.num_heads
        return 2 * pairs * self.activation if self.naive_attention else 0


def fsdp_groups(model: ModelConfig) -> list[int]:
    table = model.vocab_size * model.d_model
    layers = [layer_parameters(model)] * model.num_layers
    return [table, *layers, table + model.d_model]


KERNELS = ("auto", "flash", "efficient", "cudnn", "math", "naive")
SPARE_BYTES = 300 * 10**6
"""Memory beyond the estimate: buffers of kernels, and what the allocator cannot use."""
COMPILE = ("none", "default", "reduce-overhead", "max-autotune")


@dataclass
class TransformerConfig(RunConfig):
    uses_model: ClassVar[bool] = True

    context_length: int = key("tokens of a sequence", unit="tokens", at_least=1)
    batch_size: int = key(
        "sequences per step of each copy of the model", unit="sequences", at_least=1
    )
    dtype: str = key(
        "of weights and computation; autocast: float32 weights, bfloat16 products",
        choices=("float32", "tf32", "bfloat16", "autocast"),
    )
    passes: list[str] = key("what a step is, each a case of the job", choices=PASSES)
    attention: str = key("kernel of scaled_dot_product_attention, or written out", choices=KERNELS)
    compile: str = key("mode of torch.compile", choices=COMPILE)
    activation_checkpointing: bool = key("whether backward computes each layer's forward again")
    data_path: str | None = key("token ids: raw uint16, or .npy; null: random ones")
    parallel: str = key("how several ranks share the work", choices=("none", "ddp", "fsdp", "tp"))
    bucket_mib: float = key("size of ddp's buckets of gradients", unit="MiB", above=0)

    def known_model(self) -> ModelConfig:
        if self.model is None:
            raise ConfigError("model=null: choose a size, such as model=small")
        return self.model

    def planned(self, world_size: int) -> list[Planned]:
        """Return the passes; shared models also have that of one rank, and the communication."""
        shared = self.parallel != "none" and world_size > 1
        forward = forward_flops(self.known_model(), self.batch_size, self.context_length, True)
        cases = []
        for name in self.passes:
            whole_pass = Planned(
                labels=f"{PASS}={name}",
                flops=pass_flops(name, forward),
                copied_bytes=3.0 * self.state_bytes if name == TRAIN_STEP else 0.0,
                needed_bytes=self.bytes_of_pass(name, world_size),
                group=name if shared else "",
            )
            cases.append(whole_pass)
            if shared:
                sent_bytes = float(self.message_bytes())
                cases += [
                    whole_pass,
                    replace(whole_pass, flops=0.0, sent_bytes=sent_bytes, group=""),
                ]
        return cases

    def idle_keys(self) -> dict[str, str]:
        reasons = super().idle_keys()
        if self.parallel != "ddp":
            reasons["bucket_mib"] = f"parallel={self.parallel} has no buckets"
        if self.passes == [FORWARD]:
            reasons["activation_checkpointing"] = f"passes=[{FORWARD}] has no backward"
        return reasons

    @property
    def state_bytes(self) -> int:
        """Weights and AdamW's two moments."""
        return 3 * count_parameters(self.known_model()) * self.weight_bytes

    def needed_bytes(self, world_size: int) -> float:
        return max(self.bytes_of_pass(name, world_size) for name in self.passes)

    def bytes_of_pass(self, name: str, world_size: int) -> int:
        sent = self.message_bytes() if self.parallel != "none" and world_size > 1 else 0
        return self.footprint(self.parallel, world_size).of(name) + SPARE_BYTES + sent

    def footprint(self, kind: str, world_size: int) -> Footprint:
        model = self.known_model()
        gathered = 0
        if kind == "fsdp" and world_size > 1:
            gathered = 2 * layer_parameters(model) + model.vocab_size * model.d_model
        return Footprint(
            model,
            self.batch_size,
            self.context_length,
            weight=self.weight_bytes,
            activation=self.activation_bytes,
            naive_attention=self.attention in ("naive", "math"),
            checkpointing=self.activation_checkpointing,
            shards=world_size if kind in ("fsdp", "tp") else 1,
            gathered=gathered,
            autocast=self.dtype == "autocast",
        )

    def message_bytes(self) -> int:
        model = self.known_model()
        widest = max(model.d_model, model.vocab_size)
        sizes = {
            "ddp": count_parameters(model) * self.weight_bytes,
            "fsdp": 2 * max(fsdp_groups(model)) * self.weight_bytes,
            "tp": 2 * self.batch_size * self.context_length * widest * self.activation_bytes,
        }
        return sizes[self.parallel]

    @property
    def weight_bytes(self) -> int:
        return 2 if self.dtype == "bfloat16" else 4

    @property
    def activation_bytes(self) -> int:
        return 4 if self.dtype in ("float32", "tf32") else 2

    def check(self) -> None:
        super().check()
        model = self.known_model()
        check_model_heads(model)
        if self.hardware.device == "cpu" and self.dtype == "tf32":
            raise ConfigError("dtype=tf32: allowed on a cpu are float32, bfloat16 and autocast")
        if self.parallel != "none" and self.world_size == 1:
            raise ConfigError(
                f"parallel={self.parallel}: allowed with world_size=1 is none; choose more ranks"
            )
        if self.data_path is not None:
            check_ids(self.data_path, self.context_length, model.vocab_size)


CASES = "benchkit.suites.transformer.cases"
PRELOAD = (CASES, "torch._dynamo")
"""The first optimizer of a process imports torch._dynamo, which takes a second."""


QUESTION = Question(
    problem=("model", "context_length", "batch_size", "dtype", PASS),
    comparisons=(
        Comparison((RANKS, "parallel"), baseline={RANKS: LEAST}),
        Comparison(("compile",), baseline={"compile": "none"}),
        Comparison(("attention",), baseline={"attention": "auto"}),
        Comparison(("activation_checkpointing",), baseline={"activation_checkpointing": False}),
        Comparison(("bucket_mib",), baseline={"bucket_mib": FIRST}),
        Comparison(("warmup_iterations",), baseline={"warmup_iterations": FIRST}),
    ),
    metrics=(
        TIME,
        Metric("tokens_per_second", "", "tokens/s"),
        Metric("mfu_full", "MFU", "%", 100, peak_column=PEAK_TFLOP_PER_S),
        Metric(PEAK_BYTES, "memory", "MiB", 2**-20, is_higher_better=False),
    ),
    scaling_columns=("model", "context_length", "batch_size"),
    panel_column=PASS,
    replicates=("part", "data_path"),
    words={
        "context_length": "{} tokens",
        "batch_size": "batch {}",
        RANKS: "{} ranks",
        f"{RANKS}=1": "1 rank",
        "world_size": "{} ranks",
        "parallel=none": "",
        f"{PASS}={FORWARD_BACKWARD}": "with backward",
        f"{PASS}={TRAIN_STEP}": "train step",
        "compile=none": "eager",
        "compile=default": "compiled",
    },
    terms={
        "tokens/s": "of the last pass of a row",
        "MFU": "of that pass, over the peak of the data sheet or of this host's best product",
    },
    next_steps={
        "model": "model=tiny,small",
        "context_length": "context_length=128,256,512",
        "dtype": "dtype=float32,bfloat16",
    },
)


@suite
def transformer(config: TransformerConfig, rank: Rank) -> list[Case]:
    """Time, memory and utilisation of the passes of a language model."""
    return cases_in(CASES, config, rank)
