"""Layouts of matrices on devices, what changing them costs, and plans: how each product of a chain is shared out.

Knows no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

ROWS, COLUMNS, REPLICATED, PARTIAL = "rows", "columns", "whole", "summands"
LAYOUTS = (ROWS, COLUMNS, REPLICATED)
"""How a matrix lies on the devices: sharded along its first or its second dimension, or all of it on each. `summands`:
what each device has must be added up."""
Move = tuple[str, str]
MOVES: tuple[Move, ...] = (
    (ROWS, REPLICATED), (COLUMNS, REPLICATED), (ROWS, COLUMNS), (COLUMNS, ROWS),
    (PARTIAL, ROWS), (PARTIAL, COLUMNS), (PARTIAL, REPLICATED),
)  # fmt: skip
"""Changes of layout that take messages: all-gather, all-to-all, reduce-scatter, all-reduce."""


@dataclass(frozen=True)
class Mode:
    """A way to multiply: the layouts of input and weight that it wants, and of the output that it may leave."""

    name: str
    enters: str
    weight: str
    gives: str
    leaves: tuple[str, ...]


MODES = (
    Mode("rows", ROWS, REPLICATED, ROWS, (ROWS,)),
    Mode("columns", REPLICATED, COLUMNS, COLUMNS, (COLUMNS,)),
    Mode("inner", COLUMNS, ROWS, PARTIAL, LAYOUTS),
    Mode("everywhere", REPLICATED, REPLICATED, REPLICATED, (REPLICATED,)),
)
"""`inner`: along the dimension that is summed over. Of equal choices the first is taken."""
BY_NAME = {mode.name: mode for mode in MODES}


@dataclass(frozen=True)
class Link:
    """Seconds of a message: a latency, and seconds per byte of the whole matrix."""

    latency_s: float
    byte_s: float

    def seconds(self, num_bytes: float) -> float:
        return self.latency_s + self.byte_s * num_bytes


@dataclass(frozen=True)
class Costs:
    """What things cost on each of `devices`. create_s: per element; touch_s: of relu, per element.

    moves: of a layout into another. fetch: of bringing a layout's matrix to one device.
    """

    devices: int
    itemsize: int
    flop_s: float
    create_s: float
    touch_s: float
    moves: Mapping[Move, Link]
    fetch: Mapping[str, Link]

    def share(self, length: int) -> int:
        """The most that one device has of a dimension; shards are torch.chunk's."""
        return -(-length // self.devices)

    def elements(self, rows: int, columns: int, layout: str) -> int:
        """The most that one device has of a matrix."""
        rows = self.share(rows) if layout == ROWS else rows
        return rows * (self.share(columns) if layout == COLUMNS else columns)


@dataclass(frozen=True)
class Layer:
    """One product. weight_at_rest: how the weight lies there before it is needed. leaves: the output's layout."""

    mode: Mode
    weight_at_rest: str
    leaves: str


@dataclass(frozen=True)
class Plan:
    """A way to run a chain, with its predicted seconds.

    latency_s: what of these is latency. busiest_flops: of the device with the most work; executed_flops: of all.
    at_rest_elements, passing_elements: on one device, of all operands, and the most that comes and goes besides.
    """

    devices: int
    at_start: str
    layers: tuple[Layer, ...] = ()
    layout: str = REPLICATED
    create_s: float = 0.0
    compute_s: float = 0.0
    communicate_s: float = 0.0
    fetch_s: float = 0.0
    latency_s: float = 0.0
    busiest_flops: float = 0.0
    executed_flops: float = 0.0
    at_rest_elements: int = 0
    passing_elements: int = 0

    @property
    def total_s(self) -> float:
        return self.create_s + self.compute_s + self.communicate_s + self.fetch_s

    @property
    def elements(self) -> int:
        """The most that one device has at a time."""
        return self.at_rest_elements + self.passing_elements

    def dominated_by(self, other: "Plan") -> bool:
        """Whether another that leaves the same layout is no worse in anything that matters later."""
        return (
            other.total_s <= self.total_s
            and other.at_rest_elements <= self.at_rest_elements
            and other.passing_elements <= self.passing_elements
        )

    def __str__(self) -> str:
        """ "x rows; w1 rows gathered, by rows; out rows": each operand's layout, and how each product is shared out."""
        products = [
            f"w{number} {layer.weight_at_rest}{gathered(layer)}, by {layer.mode.name}{left(layer)}"
            for number, layer in enumerate(self.layers, 1)
        ]
        return "; ".join([f"x {self.at_start}", *products, f"out {self.layout}"])


def gathered(layer: Layer) -> str:
    return "" if layer.weight_at_rest == layer.mode.weight else " gathered"


def left(layer: Layer) -> str:
    return f", summed to {layer.leaves}" if layer.mode.gives == PARTIAL else ""
