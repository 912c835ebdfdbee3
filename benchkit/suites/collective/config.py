"""The configuration of the collectives, with the payload and bus bandwidth of nccl-tests."""

from dataclasses import dataclass
from typing import Any

from benchkit.api.keys import key
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.suites.collective.sizes import COLLECTIVES, RAGGED, REDUCTIONS, mebibytes

DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
REDUCE_OPS = ("sum", "avg", "min", "max", "product")


@dataclass
class CollectiveConfig(RunConfig):
    collective: str = key(
        "which one; send_recv: there and back between two ranks", choices=COLLECTIVES
    )
    data_size: Any = key(
        "size S of nccl-tests, a number of MiB or with its unit (4B, 1KiB)", unit="MiB"
    )
    dtype: str = key("element type", choices=DTYPES)
    reduce_op: str = key("reduction, where there is one", choices=REDUCE_OPS)
    async_op: bool = key("whether calls return at once and are waited for, each timed apart")
    ragged: bool = key("whether ranks' parts are of unlike sizes")

    def check(self) -> None:
        super().check()
        self.data_size = mebibytes(self.data_size)
        name = self.collective
        if self.reduce_op == "avg" and self.dtype.startswith("int"):
            raise ConfigError(
                f"reduce_op=avg: allowed with a floating-point dtype, not dtype={self.dtype}"
            )
        if name not in REDUCTIONS and self.reduce_op != "sum":
            raise ConfigError(f"reduce_op={self.reduce_op}: {name} has none; leave it at sum")
        if self.ragged and name not in RAGGED:
            allowed = "|".join(RAGGED)
            raise ConfigError(f"ragged=true: allowed with collective={allowed}, not {name}")
        if self.async_op and name == "send_recv":
            raise ConfigError("async_op=true: a ping-pong waits for each message; leave it false")
        if name == "send_recv" and self.world_size == 1:
            raise ConfigError("collective=send_recv: needs two ranks; allowed is world_size >= 2")
