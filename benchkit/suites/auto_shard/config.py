"""The same program on one device and on several: how it is sharded, how well that scales, and why not better."""

from dataclasses import dataclass
from typing import Any

from benchkit.api.keys import as_list, key
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.suites.auto_shard.workloads import parse

MOST_LAYERS = {"bfloat16": 4, "float16": 6, "float32": 14, "float64": 32}
"""Of an MLP whose result is still exact where it is checked: values may treble with each layer."""


@dataclass
class AutoShardConfig(RunConfig):
    devices: list[int] = key("numbers of devices, each a rank, to compare", unit="ranks", at_least=1)
    workload: str = key("matmul_MxKxN, mlp_ROWSxWIDTHxWIDTH… or relu_ROWSxCOLUMNS")
    workloads: dict[str, Any] = key("which ones to sweep over where none is given, by hardware.device")
    scaling: str = key("the same workload on all numbers of devices, or rows times devices", choices=("strong", "weak"))
    dtype: str = key("element type", choices=tuple(MOST_LAYERS))
    engine: Any = key("who carries plans out, one or a list", choices=("dtensor", "dispatcher"))
    planner: Any = key("who plans for dtensor, one or a list", choices=("auto", "axis0"))

    def check(self) -> None:
        super().check()
        workload = parse(self.workload)
        if len(set(self.devices)) < len(self.devices) or not self.devices:
            raise ConfigError(f"devices={self.devices}: allowed are different numbers >= 1")
        if self.world_size == "auto" or int(self.world_size) < max(self.devices):
            raise ConfigError(
                f"world_size={self.world_size}: allowed with devices={self.devices} is {max(self.devices)}"
            )
        if len(workload.weights) > MOST_LAYERS[self.dtype]:
            most = MOST_LAYERS[self.dtype]
            raise ConfigError(f"workload={self.workload}: allowed with dtype={self.dtype} are {most} layers")

    def shardings(self) -> list[str]:
        """What shards on several devices: the planners of DTensor, the dispatcher."""
        engines = as_list(self.engine)
        return [
            *(as_list(self.planner) if "dtensor" in engines else []),
            *(name for name in engines if name != "dtensor"),
        ]
