"""Layouts of matrices on devices, ways to multiply them, and what both cost; imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Layout(Enum):
    """How a matrix lies on the devices: sharded along its first or second dimension, or replicated.

    In the layout PARTIAL the matrix is the sum of what the devices have.
    """

    ROWS = "rows"
    COLUMNS = "columns"
    REPLICATED = "whole"
    PARTIAL = "summands"

    def __str__(self) -> str:
        return self.value


ROWS, COLUMNS, REPLICATED, PARTIAL = Layout
LAYOUTS = (ROWS, COLUMNS, REPLICATED)
"""The layouts that an operand may have."""
Move = tuple[Layout, Layout]
MOVES: tuple[Move, ...] = (
    (ROWS, REPLICATED), (COLUMNS, REPLICATED), (ROWS, COLUMNS), (COLUMNS, ROWS),
    (PARTIAL, ROWS), (PARTIAL, COLUMNS), (PARTIAL, REPLICATED),
)  # fmt: skip
"""Changes of layout that take messages: all-gather, all-to-all, reduce-scatter, all-reduce."""


@dataclass(frozen=True)
class Mode:
    """A way to multiply.

    Attributes:
        name: how the plan shows it.
        input: the layout of the input that it needs.
        weight: the layout of the weight that it needs.
        product: the layout of the product.
        outputs: the layouts that the product may then be moved to.
    """

    name: str
    input: Layout
    weight: Layout
    product: Layout
    outputs: tuple[Layout, ...]

    def __str__(self) -> str:
        return self.name


BY_ROWS = Mode("rows", ROWS, REPLICATED, ROWS, (ROWS,))
BY_COLUMNS = Mode("columns", REPLICATED, COLUMNS, COLUMNS, (COLUMNS,))
BY_INNER = Mode("inner", COLUMNS, ROWS, PARTIAL, LAYOUTS)
EVERYWHERE = Mode("everywhere", REPLICATED, REPLICATED, REPLICATED, (REPLICATED,))
MODES = (BY_ROWS, BY_COLUMNS, BY_INNER, EVERYWHERE)
"""BY_INNER shards the dimension that is summed over. Of equal choices the first is taken."""


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
    fetch: Mapping[Layout, Link]

    def share(self, length: int) -> int:
        """Returns the longest shard of a dimension; shards are those of torch.chunk."""
        return -(-length // self.devices)

    def elements(self, rows: int, columns: int, layout: Layout) -> int:
        """Returns the most elements of a matrix that one device has."""
        if layout == ROWS:
            return self.share(rows) * columns
        if layout == COLUMNS:
            return rows * self.share(columns)
        return rows * columns


def costs_of_one(itemsize: int) -> Costs:
    """Returns the costs on one device, which has nothing to move and nothing to choose between."""
    return Costs(1, itemsize, 0, 0, 0, {}, {})
