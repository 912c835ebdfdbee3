"""Layouts of matrices on devices, the costs of changing them, and plans for chains of products.

Imports no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

ROWS, COLUMNS, REPLICATED, PARTIAL = "rows", "columns", "whole", "summands"
LAYOUTS = (ROWS, COLUMNS, REPLICATED)
"""How a matrix lies on the devices: sharded along its first or second dimension, or replicated.

In the layout PARTIAL the matrix is the sum of what the devices have.
"""
Move = tuple[str, str]
MOVES: tuple[Move, ...] = (
    (ROWS, REPLICATED), (COLUMNS, REPLICATED), (ROWS, COLUMNS), (COLUMNS, ROWS),
    (PARTIAL, ROWS), (PARTIAL, COLUMNS), (PARTIAL, REPLICATED),
)  # fmt: skip
"""Changes of layout that take messages: all-gather, all-to-all, reduce-scatter, all-reduce."""


@dataclass(frozen=True)
class Mode:
    """A way to multiply.

    Attributes:
        name: how the plan names it.
        enters: the layout of the input that it needs.
        weight: the layout of the weight that it needs.
        gives: the layout of the output that the product has.
        leaves: the layouts that the output may then be moved to.
    """

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
"""`inner` shards the dimension that is summed over. Of equal choices the first is taken."""
BY_NAME = {mode.name: mode for mode in MODES}


@dataclass(frozen=True)
class Link:
    """The time of a message.

    Attributes:
        latency_s: seconds of a message without bytes.
        byte_s: seconds per byte of the whole matrix.
    """

    latency_s: float
    byte_s: float

    def seconds(self, num_bytes: float) -> float:
        return self.latency_s + self.byte_s * num_bytes


@dataclass(frozen=True)
class Costs:
    """The costs of operations and messages on each device.

    Attributes:
        devices: the number of devices.
        itemsize: bytes of an element.
        flop_s: seconds per floating-point operation of a product.
        create_s: seconds per element that is created.
        touch_s: seconds per element of relu.
        moves: the time to change one layout into another.
        fetch: the time to bring a matrix in a layout to one device.
    """

    devices: int
    itemsize: int
    flop_s: float
    create_s: float
    touch_s: float
    moves: Mapping[Move, Link]
    fetch: Mapping[str, Link]

    def share(self, length: int) -> int:
        """Returns the longest shard of a dimension; shards are those of torch.chunk."""
        return -(-length // self.devices)

    def elements(self, rows: int, columns: int, layout: str) -> int:
        """Returns the most elements of a matrix that one device has."""
        if layout == ROWS:
            return self.share(rows) * columns
        if layout == COLUMNS:
            return rows * self.share(columns)
        return rows * columns


@dataclass(frozen=True)
class Layer:
    """One product of a plan.

    Attributes:
        mode: how it is multiplied.
        weight_at_rest: the layout of the weight before it is needed.
        leaves: the layout of the output.
    """

    mode: Mode
    weight_at_rest: str
    leaves: str


@dataclass(frozen=True)
class Plan:
    """A way to run a chain, with its predicted seconds.

    Attributes:
        devices: the number of devices.
        at_start: the layout of the input.
        layers: the products so far.
        layout: the layout of the output so far.
        create_s: seconds to create operands.
        compute_s: seconds to compute.
        communicate_s: seconds to change layouts.
        fetch_s: seconds to fetch the result.
        latency_s: the latency in these seconds.
        busiest_flops: operations of the device with the most work.
        executed_flops: operations of all devices.
        at_rest_elements: elements of all operands on one device.
        passing_elements: the most elements that one device has besides, at a time.
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
        """The most elements that one device has at a time."""
        return self.at_rest_elements + self.passing_elements

    def dominated_by(self, other: "Plan") -> bool:
        """Whether another plan to the same layout is no worse in anything that matters later."""
        return (
            other.total_s <= self.total_s
            and other.at_rest_elements <= self.at_rest_elements
            and other.passing_elements <= self.passing_elements
        )

    def __str__(self) -> str:
        """Describes the layout of each operand, and how each product is sharded.

        An example is "x rows; w1 rows gathered, by rows; out rows".
        """
        products = [
            f"w{number} {layer.weight_at_rest}{gathered(layer)}, by {layer.mode.name}{left(layer)}"
            for number, layer in enumerate(self.layers, 1)
        ]
        return "; ".join([f"x {self.at_start}", *products, f"out {self.layout}"])


def gathered(layer: Layer) -> str:
    return "" if layer.weight_at_rest == layer.mode.weight else " gathered"


def left(layer: Layer) -> str:
    return f", summed to {layer.leaves}" if layer.mode.gives == PARTIAL else ""
