"""Types the configuration of one run: the schemas that YAML is checked against, and their ranges.

Schemas hold no values: every field is MISSING here and set in conf/. A default in a schema would
silently reset what a group had chosen, because the suite's schema merges last.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Union

import msgspec

from benchkit.api.groups import (
    GRAPH,
    NSYS,
    BackendConfig,
    HardwareConfig,
    MeasureConfig,
    ModelConfig,
    check_cold,
    check_hardware,
)
from benchkit.api.keys import key
from benchkit.errors import ConfigError
from launch.topology import PINNING

REUSE = "reuse"
"""The value of `ranks` with which processes of ranks stay for the next points."""


@dataclass
class RunConfig:
    """The keys that every suite's configuration has; the dataclass of a suite adds its own."""

    uses_model: ClassVar[bool] = False
    """Whether a suite reads `model`; others refuse one."""

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
        """Returns why key `name` has no `rest` below it, and what it has; "" by default.

        Args:
            name: a key of the suite.
            rest: the part of an unknown key after `name`.
        """
        return ""

    def needed_bytes(self, world_size: int) -> float | None:
        """Returns the memory that each rank needs on its device, in bytes.

        None where only the ranks know. Of several cases, the one that needs most counts.
        """
        return None

    def host_bytes(self, world_size: int) -> float:
        """Returns the further memory that each rank needs on its host, in bytes."""
        return 0.0

    def most_cases(self) -> int | None:
        """Returns how many cases a job has at most; None where only the ranks know."""
        return None

    def most_seconds(self) -> float | None:
        """Returns how long all cases are timed at most, with their warm-ups; None if unknown."""
        cases = self.most_cases()
        seconds = self.measure.max_seconds + self.measure.max_warmup_seconds
        return None if cases is None else cases * seconds

    def unsuited(self) -> str:
        """Returns why the kind of device can run no case; "" if it can."""
        if self.measure.mode == GRAPH and self.hardware.device != "cuda":
            return f"measure.mode={GRAPH}: needs hardware.device=cuda"
        return ""

    def title(self) -> str:
        """Returns what is measured, for heads of lines and plots; the suite's name by default."""
        return self.suite

    def check(self) -> None:
        """Raises ConfigError where keys contradict each other; suites add rules of their own."""
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
        pins = next((name for name in PINNING if name in self.backend.env), None)
        if pins and self.start_method == "forkserver":
            allowed = "with start_method=spawn: a fork server has loaded OpenMP before"
            raise ConfigError(f"backend.env.{pins}={self.backend.env[pins]}: allowed {allowed}")
        check_cold(self.measure, self.ranks)
        check_hardware(self.hardware, self.world_size)
        flushes, captured = self.measure.cold_l2, self.profile == NSYS
        if self.hardware.device == "cpu" and (flushes or captured):
            setting = "measure.cold_l2=true" if flushes else f"profile={NSYS}"
            raise ConfigError(f"{setting}: allowed with hardware.device=cuda")


def as_dict(config: RunConfig) -> dict[str, Any]:
    """Returns the configuration as plain dictionaries, as a record stores it."""
    plain: dict[str, Any] = msgspec.to_builtins(config)
    return plain
