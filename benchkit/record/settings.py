"""The part of a recorded configuration that every suite has, typed for readers of records."""

from dataclasses import dataclass, field

from benchkit.record.numbers import Amount, Count

Number = int | float
FIRST_CALLS = "cold"
"""The mode of `measure` that times the first calls of fresh ranks."""


@dataclass(frozen=True, kw_only=True)
class BackendSettings:
    """How ranks communicated: the backend's name and the variables set for it."""

    name: str
    env: dict[str, str | Number | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    """What ranks ran on.

    Attributes:
        device: cpu or cuda.
        ranks_per_device: ranks that shared one GPU.
        slowdown: how many times slower the last rank was to be, or each rank.
        full_share: percent of a GPU of a rank at full speed; "auto" for an equal part.
    """

    device: str
    ranks_per_device: Count
    slowdown: Number | list[Number] = 1
    full_share: Number | str = "auto"


@dataclass(frozen=True, kw_only=True)
class MeasureSettings:
    """How cases were timed."""

    mode: str
    calls_per_sample: int | str
    warmup_iterations: int


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model and its sizes; None where the model has no such size."""

    name: str
    d_model: Amount | None = None
    d_ff: Amount | None = None
    num_layers: Amount | None = None
    num_heads: Amount | None = None
    vocab_size: Amount | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Keys of `benchkit.api.schema.RunConfig` that tables show; docs/record.md says more."""

    seed: int
    threads_per_rank: int | str
    start_method: str
    backend: BackendSettings
    hardware: HardwareSettings
    measure: MeasureSettings
    model: ModelSettings | None = None
    repeat: Count = 1
    ranks: str = "auto"
    explain: bool = False


@dataclass(frozen=True)
class Configured:
    """What has a configuration; messages about a value in it begin with the name of this key."""

    config: Settings
