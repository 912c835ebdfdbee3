"""Plans for chains of products: how each product is sharded, and what that costs; without torch."""

from dataclasses import dataclass
from functools import cached_property

from benchkit.suites.auto_shard.layouts import PARTIAL, REPLICATED, Layout, Mode
from benchkit.suites.auto_shard.names import Phase


@dataclass(frozen=True)
class Layer:
    """One product of a plan.

    Attributes:
        mode: how it is multiplied.
        weight_at_rest: the layout of the weight before it is needed.
        output: the layout of the output.
    """

    mode: Mode
    weight_at_rest: Layout
    output: Layout

    def __str__(self) -> str:
        """Describes the weight and the product: "rows gathered, by inner, summed to rows"."""
        gathered = "" if self.weight_at_rest == self.mode.weight else " gathered"
        summed = f", summed to {self.output}" if self.mode.product == PARTIAL else ""
        return f"{self.weight_at_rest}{gathered}, by {self.mode}{summed}"


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
    at_start: Layout
    layers: tuple[Layer, ...] = ()
    layout: Layout = REPLICATED
    create_s: float = 0.0
    compute_s: float = 0.0
    communicate_s: float = 0.0
    fetch_s: float = 0.0
    latency_s: float = 0.0
    busiest_flops: float = 0.0
    executed_flops: float = 0.0
    at_rest_elements: int = 0
    passing_elements: int = 0

    @cached_property
    def at_rest(self) -> tuple[Layout, ...]:
        """The layouts of the operands before they are needed: the input, then the weights."""
        return (self.at_start, *(layer.weight_at_rest for layer in self.layers))

    @property
    def seconds(self) -> dict[Phase, float]:
        """The predicted seconds of each phase."""
        times = (self.create_s, self.compute_s, self.communicate_s, self.fetch_s)
        return dict(zip(Phase, times, strict=True))

    @property
    def total_s(self) -> float:
        return self.create_s + self.compute_s + self.communicate_s + self.fetch_s

    @property
    def first(self) -> Mode | Layout:
        """How the plan begins: its first product; without products the layout of its input."""
        return self.layers[0].mode if self.layers else self.at_start

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
        products = [f"w{number} {layer}" for number, layer in enumerate(self.layers, 1)]
        return "; ".join([f"x {self.at_start}", *products, f"out {self.layout}"])
