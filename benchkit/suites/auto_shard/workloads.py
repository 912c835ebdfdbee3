"""Workloads by name: `matmul_MxKxN`, `mlp_ROWSxWIDTHxWIDTH…` and `relu_ROWSxCOLUMNS`.

Imports no torch.
"""

import re
from dataclasses import dataclass, replace

from benchkit.errors import ConfigError

KINDS = ("matmul", "mlp", "relu")
ALLOWED = (
    "allowed are matmul_MxKxN, mlp_ROWSxWIDTHxWIDTH (one more x WIDTH per layer) "
    "and relu_ROWSxCOLUMNS"
)


@dataclass(frozen=True)
class Workload:
    """A chain: an input [rows, widths[0]] times weights [widths[i], widths[i + 1]], one by one.

    Attributes:
        kind: "matmul" is one product of two operands, both created by the program. "mlp" applies
            relu after each product; the weights are there before the program runs. "relu" has no
            product, only 2 relu(x).
        rows: rows of the input.
        widths: columns of the input and of the output of each product.
    """

    kind: str
    rows: int
    widths: tuple[int, ...]

    @property
    def weights(self) -> list[tuple[int, int]]:
        """The shape of each weight."""
        return list(zip(self.widths, self.widths[1:], strict=False))

    @property
    def output(self) -> tuple[int, int]:
        return self.rows, self.widths[-1]

    @property
    def flops(self) -> float:
        """Operations of the products, 2 m k n each; without products two per element."""
        products = sum(2.0 * self.rows * k * n for k, n in self.weights)
        return products or 2.0 * self.rows * self.widths[0]

    @property
    def creates_weights(self) -> bool:
        """Whether a run creates its weights, too; otherwise they are there beforehand."""
        return self.kind == "matmul"

    @property
    def activation(self) -> bool:
        """Whether relu follows each product."""
        return self.kind == "mlp"

    def times(self, factor: int) -> "Workload":
        """Returns the workload with its rows multiplied by a factor."""
        return replace(self, rows=self.rows * factor)


def parse(name: str) -> Workload:
    """Returns the workload of a name.

    Raises:
        ConfigError: there is no workload of this name.
    """
    kind, _, sizes = name.partition("_")
    if kind not in KINDS or not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)+", sizes):
        raise ConfigError(f"workload={name}: no such workload; {ALLOWED}")
    rows, *widths = map(int, sizes.split("x"))
    count = len(widths)
    is_complete = count > 1 if kind == "mlp" else count == {"matmul": 2, "relu": 1}[kind]
    if not is_complete:
        raise ConfigError(f"workload={name}: {count + 1} sizes; {ALLOWED}")
    return Workload(kind, rows, tuple(widths))
