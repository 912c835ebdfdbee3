"""Types the groups of a configuration: backend, hardware, measure and model."""

from dataclasses import dataclass
from typing import Any

from benchkit.api.keys import key
from benchkit.errors import ConfigError
from benchkit.record.settings import FIRST_CALLS

GRAPH, NSYS = "graph", "nsys"
"""The `measure.mode` and the `profile` that need a GPU."""
COLD = FIRST_CALLS
"""The `measure.mode` that times the first calls of fresh ranks."""


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
        """Returns the percent of its device that a rank has that is so many times slower."""
        on_device = self.ranks_per_device if self.device == "cuda" else 1
        full = 100 / on_device if self.full_share == "auto" else float(self.full_share)
        return full / factor


@dataclass
class MeasureConfig:
    mode: str = key(
        "one call per sample; a loop of calls_per_sample; graph: replays of a CUDA graph; or cold: "
        "the first calls of fresh ranks, verified only afterwards",
        choices=("per_iteration", "loop", GRAPH, COLD),
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
    max_seconds: float = key("measuring time per case at most", unit="s", above=0)
    min_blocks: int = key("turns of each case at least, unless max_seconds ends it", at_least=1)
    block_seconds: float = key("length of one block of samples of one case", unit="s", above=0)
    probe_seconds: float = key(
        "probing per call before measuring, for cost models and the calibration of slowdowns",
        unit="s",
        above=0,
    )
    cold_l2: bool = key("whether a GPU's L2 cache is flushed before each sample", neutral=False)
    alone: str = key(
        "when the baseline and the best of several cases are timed again, each alone in fresh "
        "ranks; auto: where cases name a baseline",
        choices=("never", "auto", "always"),
        identity=False,
    )


@dataclass
class ModelConfig:
    name: str = key("label of the size")
    d_model: int = key("width of the residual stream", at_least=1)
    d_ff: int = key("width of the gated feed-forward layer", at_least=1)
    num_layers: int = key("decoder layers", at_least=1)
    num_heads: int = key("attention heads", at_least=1)
    vocab_size: int = key("rows of the embedding and of the untied head", at_least=1)


def check_model_heads(model: ModelConfig) -> None:
    """Raises ConfigError where the heads do not share out the width, evenly for their rotation."""
    if model.d_model % model.num_heads or model.d_model // model.num_heads % 2:
        raise ConfigError(
            f"model.num_heads={model.num_heads}: allowed are numbers that divide "
            f"model.d_model={model.d_model} into heads of even width"
        )


def check_hardware(hardware: HardwareConfig, world_size: int | str) -> None:
    """Raises ConfigError where keys of `hardware` contradict each other or the world size."""
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


def check_cold(measure: MeasureConfig, ranks: str) -> None:
    """Raises ConfigError where a key of `measure`, or the key `ranks`, warms up the first calls."""
    if measure.mode != COLD:
        return
    first = f"with measure.mode={COLD}, which times the first calls of fresh ranks"
    if measure.warmup_iterations:
        raise ConfigError(
            f"measure.warmup_iterations={measure.warmup_iterations}: allowed is 0 {first}"
        )
    if measure.calls_per_sample != 1:
        raise ConfigError(
            f"measure.calls_per_sample={measure.calls_per_sample}: allowed is 1 {first}"
        )
    if ranks == "reuse":
        raise ConfigError(f"ranks={ranks}: allowed are auto and fresh {first}")


def is_rate(value: Any) -> bool:
    """Returns whether a value is a number above 0."""
    return isinstance(value, int | float) and value > 0
