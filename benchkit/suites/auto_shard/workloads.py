"""Workloads by name: `matmul_MxKxN`, `mlp_ROWSxWIDTHxWIDTH…`, `relu_ROWSxCOLUMNS`. Knows no torch."""

import re
from dataclasses import dataclass, replace

from benchkit.errors import ConfigError

KINDS = ("matmul", "mlp", "relu")
ALLOWED = "allowed are matmul_MxKxN, mlp_ROWSxWIDTHxWIDTH (one more x WIDTH per layer) and relu_ROWSxCOLUMNS"


@dataclass(frozen=True)
class Workload:
    """A chain: an input [rows, widths[0]] times a weight [widths[i], widths[i + 1]] after another.

    matmul: one product of two operands, both created by the program. mlp: after each product relu; the weights are
    there before the program runs. relu: no product, 2 relu(x).
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
        """Operations of the products, 2 m k n each; without one the two operations per element."""
        products = sum(2.0 * self.rows * k * n for k, n in self.weights)
        return products or 2.0 * self.rows * self.widths[0]

    @property
    def creates_weights(self) -> bool:
        """Whether a run creates its weights, too, or finds them there."""
        return self.kind == "matmul"

    @property
    def activation(self) -> bool:
        """Whether relu follows each product."""
        return self.kind == "mlp"

    def times(self, factor: int) -> "Workload":
        """With so many times the rows."""
        return replace(self, rows=self.rows * factor)


def parse(name: str) -> Workload:
    """Raises ConfigError where a name is none."""
    kind, _, sizes = name.partition("_")
    if kind not in KINDS or not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)+", sizes):
        raise ConfigError(f"workload={name}: no such workload; {ALLOWED}")
    rows, *widths = map(int, sizes.split("x"))
    if (kind, len(widths)) not in (("matmul", 2), ("relu", 1)) and not (kind == "mlp" and len(widths) > 1):
        raise ConfigError(f"workload={name}: {len(widths) + 1} sizes; {ALLOWED}")
    return Workload(kind, rows, tuple(widths))
