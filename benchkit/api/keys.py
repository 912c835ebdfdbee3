"""The typed configuration of one run: groups and keys, with their meanings and ranges."""

import math
import re
import sys
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Union

import msgspec

from benchkit.api.case import CONFIGURED, ONE_CALL, CallsPerSample
from benchkit.errors import ConfigError, Reason
from benchkit.record.record import FIRST_CALLS, PlainConfig
from benchkit.statistics import FEWEST_TURNS

MISSING = "???"
"""OmegaConf's mark of an unset key. Ranks import this module, but not OmegaConf."""

SHORT_NAMES = {
    "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32",
    "fp64": "float64", "double": "float64", "fp8": "float8_e4m3fn",
}  # fmt: skip
"""Short names of element types on the command line."""


@dataclass(frozen=True)
class Key:
    """Meaning, unit and allowed values of a configuration key.

    Attributes:
        doc: the meaning, for help and error messages.
        unit: unit of the value, such as "MiB"; "" for none.
        above: lower bound, exclusive; `at_least` is inclusive, `below` an exclusive upper bound.
        identity: whether the value changes what is measured, and so belongs to a point's identity.
        neutral: the value of points older than the key. It is left out of the identity, so that
            theirs stays. None for a key without such a value.
    """

    doc: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    identity: bool = True
    neutral: Any = None

    def allowed(self) -> str:
        """Return the allowed values in words: "auto or >= 1", "> 0 MiB"."""
        bounds = [("> ", self.above), (">= ", self.at_least), ("< ", self.below)]
        interval = " and ".join(f"{sign}{bound:g}" for sign, bound in bounds if bound is not None)
        if interval and self.unit:
            interval += f" {self.unit}"
        words = "|".join(self.choices)
        if short := [short for short, name in SHORT_NAMES.items() if name in self.choices]:
            words += f" (short: {', '.join(short)})"
        return " or ".join(part for part in (words, interval) if part)

    def accepts(self, value: Any) -> bool:
        """Return whether a value, or each item of a non-empty list, is allowed and finite."""
        bounded = any(bound is not None for bound in (self.above, self.at_least, self.below))
        if not self.choices and not bounded:
            return True
        if isinstance(value, list):
            return bool(value) and all(self.accepts(item) for item in value)
        if isinstance(value, bool):
            value = str(value).lower()
        if isinstance(value, str):
            return value in self.choices
        if not isinstance(value, int | float) or not bounded:
            return False
        if not abs(value) <= sys.float_info.max:  # NaN, infinite, or more digits than floats hold
            return False
        return (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
        )


def key(doc: str, **limits: Any) -> Any:
    """Declare a configuration key: a dataclass field without a value, with the limits of `Key`."""
    return field(default=MISSING, metadata={"key": Key(doc, **limits)})


def described_keys(schema: type, prefix: str = "") -> dict[str, tuple[Key, Any]]:
    keys: dict[str, tuple[Key, Any]] = {}
    for item in fields(schema):
        nested = nested_schema(item.type)
        if nested is None:
            keys[prefix + item.name] = (item.metadata["key"], item.type)
        else:
            keys |= described_keys(nested, f"{prefix}{item.name}.")
    return keys


def nested_schema(annotation: Any) -> type | None:
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and is_dataclass(candidate):
            return candidate
    return None


def check_ranges(config: Any, prefix: str = "") -> None:
    """Raise ConfigError for the first value outside its range, or that JSON cannot represent.

    Types have been checked before, so None passes, except for a required group.
    """
    for item in fields(config):
        value = getattr(config, item.name)
        described: Key = item.metadata["key"]
        name = prefix + item.name
        if is_dataclass(value):
            check_ranges(value, f"{name}.")
        elif value is None and isinstance(item.type, type) and is_dataclass(item.type):
            raise ConfigError(f"{name}=null: {described.doc}; choose an option of it")
        else:
            require_accepted(item, name, value)


def require_accepted(item: Any, name: str, value: Any) -> None:
    described: Key = item.metadata["key"]
    if value is not None and not described.accepts(value):
        raise ConfigError(f"{name}={value}: allowed is {described.allowed()} ({described.doc})")
    require_storable(name, value)


def require_storable(name: str, value: Any) -> None:
    """Raise ConfigError for a value that JSON cannot represent, such as text that is not UTF-8."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}={value!a}: a record cannot hold it ({error})") from None


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


LOOP = "loop"  # the `measure.mode` of consecutive calls
GRAPH, NSYS = "graph", "nsys"  # the `measure.mode` and the `profile` that need a GPU
SLOW_CASE_S = 10  # time limit of a case with fewer than FEWEST_TURNS samples
COLD = FIRST_CALLS  # the `measure.mode` that times the first calls of fresh ranks


@dataclass
class BackendConfig:
    name: str = key("name torch.distributed knows it by", choices=("gloo", "nccl", "ucc", "mpi"))
    devices: list[str] = key("devices whose tensors it can communicate")
    env: dict[str, str] = key("environment variables set in every rank before it starts")


@dataclass
class HardwareConfig:
    device: str = key("where tensors live", choices=("cpu", "cuda"))
    ranks_per_device: int = key("ranks that share one GPU; cpu ignores it", at_least=1)
    slowdown: Any = key(
        "how many times slower: the last rank, or [one factor per rank]", at_least=1
    )
    peak_tflop_per_s: dict[str, Any] = key(
        "of GPUs by name and dtype, dense; what is not there is measured",
        unit="TFLOP/s",
        identity=False,
    )
    slow_by: str = key("what slows a rank down", choices=("auto", "mps", "cgroup", "duty_cycle"))
    full_share: Any = key(
        "percent of a GPU that MPS gives a rank at full speed; auto: an equal part",
        choices=("auto",),
        above=0,
        neutral="auto",
    )

    def share(self, factor: float) -> float:
        """Return the share in percent of its device for a rank that is `factor` times slower."""
        on_device = self.ranks_per_device if self.device == "cuda" else 1
        full = 100 / on_device if self.full_share == "auto" else float(self.full_share)
        return full / factor


@dataclass
class MeasureConfig:
    mode: str = key(
        "one call per sample; a loop of calls_per_sample; graph: replays of a CUDA graph; or cold: "
        "the first calls of fresh ranks, verified only afterwards",
        choices=("per_iteration", LOOP, GRAPH, COLD),
    )
    calls_per_sample: Any = key(  # OmegaConf 2.3 fails on unions in a group
        "calls in one sample of mode=loop or graph; auto: as many calls as fill block_seconds",
        choices=("auto",),
        at_least=1,
    )
    warmup_iterations: int = key(
        "samples taken and set aside before measuring, at least", at_least=0
    )
    max_warmup_seconds: float = key(
        "the warm-up goes on so long where calls still get faster", unit="s", at_least=0
    )
    target_rel_ci: float | None = key(
        "stop when the half-width of the 95 % interval is below this share of the median",
        above=0,
        below=1,
    )
    max_iterations: int = key("samples per case at most", at_least=1)
    max_seconds: float = key(
        f"measuring time per case at most; {FEWEST_TURNS} samples may take {SLOW_CASE_S} s",
        unit="s",
        above=0,
    )
    min_blocks: int = key("blocks of each case at least, unless max_seconds ends it", at_least=1)
    block_seconds: float = key("length of one block of samples of one case", unit="s", above=0)
    probe_seconds: float = key(
        "probing per call before measuring, for cost models and the calibration of slowdowns",
        unit="s",
        above=0,
    )
    cold_l2: bool = key("whether a GPU's L2 cache is flushed before each sample", neutral=False)
    alone: str = key(
        "when the baseline and the best of several cases are timed again, each isolated in fresh "
        "ranks; auto: where cases name a baseline, of reused ranks one point in eleven",
        choices=("never", "auto", "always"),
        identity=False,
    )

    def sample_of(self, calls: CallsPerSample) -> CallsPerSample:
        """Return the calls per sample of a case with the default `calls`."""
        if self.mode == COLD:
            return ONE_CALL
        if calls != CONFIGURED:
            return calls
        if self.calls_per_sample == "auto":
            return CallsPerSample(fill_s=self.block_seconds)
        return CallsPerSample(number=int(self.calls_per_sample))

    def most_seconds(self, num_samples: int = 0) -> float:
        """Return the time limit in seconds of a case with so many samples."""
        is_enough = num_samples >= FEWEST_TURNS
        return self.max_seconds if is_enough else max(self.max_seconds, SLOW_CASE_S)


@dataclass
class ModelConfig:
    name: str = key("label of the size")
    d_model: int = key("width of the residual stream", at_least=1)
    d_ff: int = key("width of the gated feed-forward layer", at_least=1)
    num_layers: int = key("decoder layers", at_least=1)
    num_heads: int = key("attention heads", at_least=1)
    vocab_size: int = key("rows of the embedding and of the untied head", at_least=1)


def check_model_heads(model: ModelConfig) -> None:
    """Raise ConfigError unless the heads divide the width into even parts, for rotary embedding."""
    if model.d_model % model.num_heads or model.d_model // model.num_heads % 2:
        raise ConfigError(
            f"model.num_heads={model.num_heads}: allowed are numbers that divide "
            f"model.d_model={model.d_model} into heads of even width"
        )


def require_consistent_value(
    name: str, value: int, owner: str, expected: int, their_name: str = ""
) -> None:
    """Raise ConfigError if a key contradicts the value of a model or a layer."""
    if value != expected:
        has = f"{owner} has {their_name or name}={expected}"
        raise ConfigError(f"{name}={value}: {has}; leave one of both out")


def check_hardware(hardware: HardwareConfig, world_size: int | str) -> None:
    slowdown, device, slow_by = hardware.slowdown, hardware.device, hardware.slow_by
    if slowdown is None:
        raise ConfigError("hardware.slowdown=null: allowed is >= 1, or [one factor per rank]")
    mechanisms = ("mps",) if device == "cuda" else ("cgroup", "duty_cycle")
    if slow_by not in ("auto", *mechanisms):
        raise ConfigError(f"hardware.slow_by={slow_by}: cannot slow hardware.device={device}")
    full = hardware.full_share
    if full != "auto" and (device != "cuda" or full > 100):
        allowed = "auto or, with hardware.device=cuda, a percentage up to 100"
        raise ConfigError(f"hardware.full_share={full}: allowed is {allowed}")
    for name, rates in hardware.peak_tflop_per_s.items():
        if not isinstance(rates, dict) or not all(map(is_rate, rates.values())):
            key_name = f"hardware.peak_tflop_per_s.{name}"
            raise ConfigError(f"{key_name}={rates}: allowed is a rate > 0 for each dtype")
    if isinstance(slowdown, list) and world_size not in ("auto", len(slowdown)):
        raise ConfigError(f"hardware.slowdown={slowdown}: allowed is one per rank of {world_size}")


SET_IN_RANKS = {
    "OMP_NUM_THREADS": "threads_per_rank", "RANK": "", "LOCAL_RANK": "", "WORLD_SIZE": "world_size",
    "LOCAL_WORLD_SIZE": "",
}  # fmt: skip
"""Variables that benchkit sets in every rank and `backend.env` cannot, and their keys."""
OVERRULED = SET_IN_RANKS | {"MKL_NUM_THREADS": "threads_per_rank"}  # by torch.set_num_threads
READ_AT_START = re.compile(r"(LD|DYLD|MALLOC|GLIBC)_|PYTHON")
READ_BY_AGENTS = re.compile(r"BENCHKIT_|MASTER_(ADDR|PORT)$")
READ_BY_TORCH = re.compile(r"PYTORCH_|TRITON_|TORCH(?!_NCCL_|_UCC_)")


def replacement_override(name: str, value: str) -> str:
    """Return the override to use instead of one of OVERRULED."""
    instead = f"{OVERRULED[name]}={value}" if OVERRULED[name] else "to leave it out"
    return f"{instead}: benchkit sets it in each rank"


def check_variables(variables: dict[str, str], start_method: str) -> None:
    """Raise ConfigError if a variable of a rank would be overwritten, or set too late."""
    from launch.host import PINNING  # here: analysis, too, reads the files of suites

    for name, value in variables.items():
        if name in OVERRULED:
            allowed = f"is {replacement_override(name, value)}"
        elif READ_AT_START.match(name):
            allowed = "in the shell: a process reads it when it starts"
        elif READ_BY_AGENTS.match(name):
            allowed = "in the shell: benchkit reads it before ranks start"
        elif start_method == "forkserver" and (name in PINNING or READ_BY_TORCH.match(name)):
            allowed = "with start_method=spawn: a fork server has loaded torch and OpenMP before"
        else:
            continue
        raise ConfigError(f"backend.env.{name}={value}: allowed {allowed}")


def check_cold(measure: MeasureConfig, ranks: str) -> None:
    """Raise ConfigError if a key would warm up the first calls."""
    if measure.mode != COLD:
        return
    context = f"with measure.mode={COLD}, which times the first calls of fresh ranks"
    if measure.warmup_iterations:
        raise ConfigError(
            f"measure.warmup_iterations={measure.warmup_iterations}: allowed is 0 {context}"
        )
    if measure.calls_per_sample != 1:
        raise ConfigError(
            f"measure.calls_per_sample={measure.calls_per_sample}: allowed is 1 {context}"
        )
    if ranks == "reuse":
        raise ConfigError(f"ranks={ranks}: allowed are auto and fresh {context}")


def is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A case as it is known before any rank runs; amounts are per rank.

    Attributes:
        labels: labels in words, such as "pass=forward"; "" for the only case.
        flops: operations of a call.
        sent_bytes: bytes sent by a call; `copied_bytes` are read and written in memory.
        steps: number of consecutive messages or kernels of a call.
        needed_bytes: memory on the rank's device; None if that of the job counts.
        calls: calls per sample.
        below_s: time of a call from which on the case is not timed.
        first_s: extra seconds of the first call, such as compilation.
        by_speed: whether slower ranks do less; else all do the same.
        group: name of a set of cases with one baseline; "" for none.
    """

    labels: str = ""
    flops: float = 0.0
    sent_bytes: float = 0.0
    copied_bytes: float = 0.0
    steps: int = 1
    needed_bytes: float | None = None
    calls: CallsPerSample = CONFIGURED
    below_s: float = math.inf
    first_s: float = 0.0
    by_speed: bool = False
    group: str = ""


REUSE = "reuse"  # value of `ranks`: processes are reused for the next points


@dataclass
class RunConfig:
    """The keys of every suite's configuration; the dataclass of a suite adds its own."""

    uses_model: ClassVar[bool] = False
    probes: ClassVar[int] = 0
    """Number of calls that the suite times for its cost model before cases are built."""
    suite: str = key("name of the suite")
    seed: int = key("seed of inputs and of the order of cases", at_least=0, below=2**63)
    world_size: Union[int, str] = key(  # noqa: UP007 (OmegaConf 2.3 reads typing.Union only)
        "number of ranks; auto: the visible GPUs, on CPUs one per agent, or 2",
        choices=("auto",),
        at_least=1,
    )
    threads_per_rank: Union[int, str] = key(  # noqa: UP007
        "CPU threads of one rank; auto: cores / ranks", choices=("auto",), at_least=1
    )
    ranks: str = key(
        "whether processes of ranks measure one point each or stay for the next ones; auto: they "
        "stay on GPUs",
        choices=("auto", "fresh", "reuse"),
        neutral="auto",
    )
    start_method: str = key("how rank processes start", choices=("forkserver", "spawn"))
    timeout_s: float = key(
        "time allowed to one point from fork to exit", unit="s", above=0, below=1e6, identity=False
    )
    join_timeout_s: float = key(
        "time allowed to a launcher's agents to come together",
        unit="s",
        above=0,
        below=1e6,
        identity=False,
    )
    trust_network: bool = key(
        "whether agents on hosts without a shared folder join by a secret that others can guess",
        identity=False,
    )
    host_wait_s: float = key(
        "time that a point waits for other runs on each of its hosts",
        unit="s",
        at_least=0,
        below=1e6,
        identity=False,
    )
    backend: BackendConfig = key("group: how ranks communicate")
    hardware: HardwareConfig = key("group: what they run on")
    measure: MeasureConfig = key("group: how long, and until when, a case is timed")
    model: ModelConfig | None = key("group: a model size, for suites that use one")
    repeat: int = key(
        "runs of each point in fresh processes, in a shuffled order",
        at_least=1,
        below=10_000,
        identity=False,
    )
    max_failures: int | None = key(
        "points that may fail one after another before the sweep ends", at_least=1, identity=False
    )
    report: str | None = key(
        "at the sweep's end: html writes its page, verdict judges an acceptance",
        choices=("html", "verdict"),
        identity=False,
    )
    on_end: str | None = key("shell command that runs when the sweep ends", identity=False)
    private_network: bool = key(
        "whether CPU ranks on one host get a network of their own, where its kernel gives one",
        identity=False,
    )
    profile: Union[bool, str] = key(  # noqa: UP007
        "true: torch.profiler traces a few more steps of each case; nsys: it captures the samples",
        choices=("true", "false", NSYS),
    )
    explain: bool = key(
        "whether what each case tells of itself (a plan, a split) is printed below it",
        identity=False,
    )

    @classmethod
    def unknown(cls, name: str, rest: str) -> str:
        """Return why key `name` has no `rest` below it, and its allowed keys; "" by default."""
        return ""

    def needed_bytes(self, world_size: int) -> float | None:
        """Return the bytes that each rank needs on its device; None if only ranks know.

        It is the maximum over the cases.
        """
        return None

    def host_bytes(self, world_size: int) -> float:
        """Return the further bytes that each rank needs on its host."""
        return 0.0

    def planned(self, world_size: int) -> list[Planned]:
        """Return the cases of a job of so many ranks; none if only ranks know them."""
        return []

    def most_seconds(self) -> float | None:
        """Return the time limit in seconds that the suite keeps by leaving cases out, or None."""
        return None

    def unsuited(self) -> Reason:
        """Return why the device can run no case, or ""."""
        if self.measure.mode == GRAPH and self.hardware.device != "cuda":
            return f"measure.mode={GRAPH}: needs hardware.device=cuda"
        return ""

    def calls(self) -> CallsPerSample:
        """Return the default calls per sample of the suite's cases."""
        return CONFIGURED

    def idle_keys(self) -> dict[str, str]:
        """Return the keys without an effect beside the others, each with the reason."""
        reasons = {}
        if self.calls() != CONFIGURED and self.measure.calls_per_sample != 1:
            reasons["measure.calls_per_sample"] = (
                f"measure.mode={self.measure.mode} makes as many calls of a sample as suite "
                f"{self.suite} needs"
            )
        if self.hardware.device == "cpu":
            reasons["hardware.ranks_per_device"] = "hardware.device=cpu has no GPU to share"
        return reasons

    def title(self) -> str:
        """Return the title of lines and plots; by default the suite's name."""
        return self.suite

    def parse(self) -> "RunConfig":
        """Return the configuration with parsed values in place of texts, such as "4KiB" in MiB.

        Raise ConfigError for an invalid text.
        """
        return self

    def check(self) -> None:
        """Raise ConfigError if keys contradict each other; suites add their own rules."""
        if self.model is not None and not self.uses_model:
            raise ConfigError(
                f"model={self.model.name}: suite {self.suite} uses no model; leave it out"
            )
        calls = self.measure.calls_per_sample
        if self.measure.mode == "per_iteration" and calls != 1:
            allowed = "1, or more with measure.mode=loop"
            raise ConfigError(f"measure.calls_per_sample={calls}: allowed is {allowed}")
        if self.ranks == REUSE and self.repeat > 1:
            allowed = "with repeat=1, because repeated runs are to be independent"
            raise ConfigError(f"ranks={REUSE}: allowed is {allowed}")
        check_variables(self.backend.env, self.start_method)
        check_cold(self.measure, self.ranks)
        check_hardware(self.hardware, self.world_size)
        flushes, captured = self.measure.cold_l2, self.profile == NSYS
        if self.hardware.device == "cpu" and (flushes or captured):
            setting = "measure.cold_l2=true" if flushes else f"profile={NSYS}"
            raise ConfigError(f"{setting}: allowed with hardware.device=cuda")
        if flushes and self.measure.sample_of(self.calls()) != ONE_CALL:
            allowed = "allowed with one call per sample, since the others find what it left"
            raise ConfigError(f"measure.cold_l2=true: {allowed}")


def as_dict(config: RunConfig) -> PlainConfig:
    plain: PlainConfig = msgspec.to_builtins(config)
    return plain


def count_parameters(model: ModelConfig) -> int:
    """Count the parameters of embedding, layers, last norm and untied head."""
    tables = (2 * model.vocab_size + 1) * model.d_model
    return int(tables + model.num_layers * layer_parameters(model))


def layer_parameters(model: ModelConfig) -> int:
    """Count the parameters of four projections, a gated feed-forward layer and two norms."""
    return 4 * model.d_model**2 + 3 * model.d_model * model.d_ff + 2 * model.d_model


LAYERS = ("attn_qkv", "attn_out", "ffn_up", "ffn_down", "head")
"""Products of tokens with weights. ffn_up is one of the gated layer's two."""


def layer_shape(model: ModelConfig, layer: str) -> tuple[int, int]:
    """Return the rows k and columns n of the weights of one of LAYERS.

    attn_qkv is one product for queries, keys and values.
    """
    width, inner = model.d_model, model.d_ff
    return {
        "attn_qkv": (width, 3 * width),
        "attn_out": (width, width),
        "ffn_up": (width, inner),
        "ffn_down": (inner, width),
        "head": (width, model.vocab_size),
    }[layer]
