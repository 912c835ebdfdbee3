"""Workloads, as the command line names them; imports no torch."""

import re
from dataclasses import dataclass, replace
from enum import Enum

from benchkit.errors import ConfigError


class StrEnum(str, Enum):
    """Members equal their text; Python has this class from 3.11 on."""

    def __str__(self) -> str:
        return str(self.value)


ALLOWED = (
    "allowed are matmul_MxKxN, mlp_ROWSxWIDTHxWIDTH (one more x WIDTH per layer) "
    "and relu_ROWSxCOLUMNS"
)


CHECKED_ROWS = 1024  # rows of a result that are computed and compared at a time


class Kind(StrEnum):
    """What a chain computes.

    MATMUL is one product of two operands, both created by the program. MLP applies relu after each
    product; its weights are there before. RELU has no product, only 2 relu(x).
    """

    MATMUL = "matmul"
    MLP = "mlp"
    RELU = "relu"


NAME = re.compile(rf"({'|'.join(Kind)})_([1-9]\d*(?:x[1-9]\d*)+)")


@dataclass(frozen=True)
class ChainWorkload:
    """A chain: an input [rows, widths[0]] times weights [widths[i], widths[i + 1]]."""

    kind: Kind
    rows: int
    widths: tuple[int, ...]

    @property
    def weights(self) -> list[tuple[int, int]]:
        return list(zip(self.widths, self.widths[1:], strict=False))

    @property
    def output(self) -> tuple[int, int]:
        return self.rows, self.widths[-1]

    @property
    def flops(self) -> float:
        """Operations of the products, 2 m k n each; without products 2 per element."""
        products = sum(2.0 * self.rows * k * n for k, n in self.weights)
        return products or 2.0 * self.rows * self.widths[0]

    def checking_bytes(self, itemsize: int, devices: int) -> float:
        """Return the memory to draw an exact operand, and to compute some rows of the result.

        The input is taken to be shared out, and a weight to be on each device.
        """
        weights = (inner * outer for inner, outer in self.weights)
        operand = max(self.rows * self.widths[0] / devices, *weights, 0)
        # Checking holds some copies of the widest rows, in float32 at least.
        widest = 5.0 * min(self.rows, CHECKED_ROWS) * max(self.widths)
        return (1 + itemsize) * operand + widest * max(4, itemsize)

    def host_bytes(self, itemsize: int) -> float:
        """Return the host memory of a fetched result, and of an operand that a dispatcher sends."""
        return itemsize * self.rows * (self.widths[-1] + self.widths[0])

    @property
    def creates_weights(self) -> bool:
        return self.kind == Kind.MATMUL

    @property
    def num_created(self) -> int:
        return len(self.widths) if self.creates_weights else 1

    @property
    def activation(self) -> bool:
        return self.kind == Kind.MLP

    def times(self, factor: int) -> "ChainWorkload":
        return replace(self, rows=self.rows * factor)


def parse(name: str) -> ChainWorkload:
    match = NAME.fullmatch(name)
    if not match:
        raise ConfigError(f"workload={name}: no such workload; {ALLOWED}")
    kind = Kind(match[1])
    rows, *widths = map(int, match[2].split("x"))
    count = len(widths)
    is_complete = {Kind.MATMUL: count == 2, Kind.MLP: count > 1, Kind.RELU: count == 1}
    if not is_complete[kind]:
        raise ConfigError(f"workload={name}: {count + 1} sizes; {ALLOWED}")
    return ChainWorkload(kind, rows, tuple(widths))


class Phase(StrEnum):
    """The regions of a step. Resident operands have only the two in the middle."""

    CREATE = "create"
    COMPUTE = "compute"
    COMMUNICATE = "communicate"
    FETCH = "fetch"


CREATE, COMPUTE, COMMUNICATE, FETCH = Phase
