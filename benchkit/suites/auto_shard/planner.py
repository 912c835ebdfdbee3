"""Choose how a chain of products is sharded over devices.

Each product is sharded by rows, by columns, along the inner dimension, or not at all. A cost model
predicts the seconds of every choice: products at a rate, messages by latency and bandwidth
(Hockney, 1994), each as measured. Along the chain the planner keeps the cheapest way to every
layout (dynamic programming) that fits in memory. Imports no torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from benchkit.suites.auto_shard.workloads import ChainWorkload, Phase


class Layout(Enum):
    """Layout of a matrix on the devices. PARTIAL: the matrix is the sum of their parts."""

    ROWS = "rows"
    COLUMNS = "columns"
    REPLICATED = "whole"
    PARTIAL = "summands"

    def __str__(self) -> str:
        return self.value


ROWS, COLUMNS, REPLICATED, PARTIAL = Layout
LAYOUTS = (ROWS, COLUMNS, REPLICATED)
Move = tuple[Layout, Layout]
MOVES: tuple[Move, ...] = (
    (ROWS, REPLICATED), (COLUMNS, REPLICATED), (ROWS, COLUMNS), (COLUMNS, ROWS),
    (PARTIAL, ROWS), (PARTIAL, COLUMNS), (PARTIAL, REPLICATED),
)  # fmt: skip
"""Changes of layout by messages: all-gather, all-to-all, reduce-scatter, all-reduce."""


@dataclass(frozen=True)
class Mode:
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
"""BY_INNER shards the dimension that is summed over. The first of equal choices is taken."""


@dataclass(frozen=True)
class Link:
    """Time of a message: seconds without bytes, and per byte of the whole matrix."""

    latency_s: float
    byte_s: float

    def seconds(self, num_bytes: float) -> float:
        return self.latency_s + self.byte_s * num_bytes


@dataclass(frozen=True)
class ShardingCosts:
    """Seconds per operation of a product, element created, element of relu, and message."""

    devices: int
    itemsize: int
    flop_s: float
    create_s: float
    touch_s: float
    moves: Mapping[Move, Link]
    fetch: Mapping[Layout, Link]

    def share(self, length: int) -> int:
        """Return the longest shard of a dimension, as torch.chunk makes them."""
        return -(-length // self.devices)

    def elements(self, rows: int, columns: int, layout: Layout) -> int:
        if layout == ROWS:
            return self.share(rows) * columns
        if layout == COLUMNS:
            return rows * self.share(columns)
        return rows * columns


def costs_of_one(itemsize: int) -> ShardingCosts:
    return ShardingCosts(1, itemsize, 0, 0, 0, {}, {})


@dataclass(frozen=True)
class LayerSharding:
    mode: Mode
    weight_at_rest: Layout
    output: Layout

    def __str__(self) -> str:
        """Return a text such as "rows gathered, by inner, summed to rows"."""
        gathered = "" if self.weight_at_rest == self.mode.weight else " gathered"
        summed = f", summed to {self.output}" if self.mode.product == PARTIAL else ""
        return f"{self.weight_at_rest}{gathered}, by {self.mode}{summed}"


@dataclass(frozen=True)
class ShardPlan:
    """A way to run a chain, with its predicted seconds, of which latency_s is a part.

    `layout` is that of the output so far. `busiest_flops` are operations of the device with the
    most work, `executed_flops` those of all. One device has `at_rest_elements` of all operands, and
    at most `passing_elements` besides at a time.
    """

    devices: int
    at_start: Layout
    layers: tuple[LayerSharding, ...] = ()
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
        return (self.at_start, *(layer.weight_at_rest for layer in self.layers))

    @property
    def seconds(self) -> dict[Phase, float]:
        times = (self.create_s, self.compute_s, self.communicate_s, self.fetch_s)
        return dict(zip(Phase, times, strict=True))

    @property
    def total_s(self) -> float:
        return self.create_s + self.compute_s + self.communicate_s + self.fetch_s

    @property
    def first(self) -> Mode | Layout:
        return self.layers[0].mode if self.layers else self.at_start

    @property
    def elements(self) -> int:
        return self.at_rest_elements + self.passing_elements

    def is_dominated_by(self, other: "ShardPlan") -> bool:
        """Return whether another plan to the same layout is no worse in what matters later."""
        return (
            other.total_s <= self.total_s
            and other.at_rest_elements <= self.at_rest_elements
            and other.passing_elements <= self.passing_elements
        )

    def __str__(self) -> str:
        """Describe the plan: "x rows; w1 rows gathered, by rows; out rows"."""
        products = [f"w{number} {layer}" for number, layer in enumerate(self.layers, 1)]
        return "; ".join([f"x {self.at_start}", *products, f"out {self.layout}"])


def choices() -> Iterator[LayerSharding]:
    for mode in MODES:
        layouts_at_rest = (REPLICATED, ROWS) if mode.weight == REPLICATED else (mode.weight,)
        for at_rest in layouts_at_rest:
            for output in mode.outputs:
                yield LayerSharding(mode, at_rest, output)


def pareto_front(plans: Sequence[ShardPlan], respect_memory_limit: bool) -> list[ShardPlan]:
    """Return the plans that may still become the best, or the best with their first product.

    With `respect_memory_limit` a slower plan is kept if it needs less memory.
    """
    front: list[ShardPlan] = []
    for plan in sorted(plans, key=lambda plan: plan.total_s):
        group = (plan.layout, plan.first)
        rivals = [other for other in front if (other.layout, other.first) == group]
        if respect_memory_limit:
            rivals = [other for other in rivals if plan.is_dominated_by(other)]
        if not rivals:
            front.append(plan)
    return front


@dataclass(frozen=True)
class ShardPlanner:
    """Plans a workload by measured costs, with so many elements of memory on a device.

    With `end_to_end`, creating the operands and fetching the result count, too.
    """

    workload: ChainWorkload
    costs: ShardingCosts
    end_to_end: bool
    memory_elements: float = float("inf")

    def best(self) -> ShardPlan:
        fastest = min(self.candidates, key=lambda plan: plan.total_s)
        if fastest.elements <= self.memory_elements:
            return fastest
        plans = self.plans(respect_memory_limit=True)
        fitting = [plan for plan in plans if plan.elements <= self.memory_elements]
        if fitting:
            return min(fitting, key=lambda plan: plan.total_s)
        return min(plans, key=lambda plan: plan.elements)

    def alternatives(self) -> dict[Mode | Layout, float]:
        """Return the seconds of the best plan by its first choice; it may exceed memory."""
        slowest_first = sorted(self.candidates, key=lambda plan: plan.total_s, reverse=True)
        return {plan.first: plan.total_s for plan in slowest_first}

    def axis0(self) -> ShardPlan:
        """Return the plan of GT's rule.

        Everything is sharded along axis 0, or whole where that does not divide. Weights are
        gathered first.
        """

        def at_rest(length: int) -> Layout:
            return REPLICATED if length % self.costs.devices else ROWS

        plan = self.start(at_rest(self.workload.rows))
        for index, (inner, _) in enumerate(self.workload.weights):
            mode = BY_ROWS if plan.layout == ROWS else EVERYWHERE
            plan = self.add_layer(plan, index, LayerSharding(mode, at_rest(inner), mode.product))
        return self.add_fetch(plan)

    def everywhere(self) -> ShardPlan:
        plan = self.start(REPLICATED)
        for index in range(len(self.workload.weights)):
            plan = self.add_layer(plan, index, LayerSharding(EVERYWHERE, REPLICATED, REPLICATED))
        return self.add_fetch(plan)

    @cached_property
    def candidates(self) -> list[ShardPlan]:
        return self.plans(respect_memory_limit=False)

    def plans(self, respect_memory_limit: bool) -> list[ShardPlan]:
        """Return finished plans; none dominates another with the same first product."""
        plans = [self.start(layout) for layout in LAYOUTS]
        for index in range(len(self.workload.weights)):
            longer = [self.add_layer(plan, index, layer) for plan in plans for layer in choices()]
            plans = pareto_front(longer, respect_memory_limit)
        return [self.add_fetch(plan) for plan in plans]

    def held_elements(self, plan: ShardPlan) -> int:
        """Return the elements that a device keeps between steps: operands and a result."""
        workload, costs = self.workload, self.costs
        first = costs.elements(workload.rows, workload.widths[0], plan.at_start)
        if self.end_to_end:
            return 0 if workload.creates_weights else plan.at_rest_elements - first
        return plan.at_rest_elements + costs.elements(*workload.output, plan.layout)

    def creates_whole(self, plan: ShardPlan) -> bool:
        return self.end_to_end and REPLICATED in plan.at_rest[: self.workload.num_created]

    def start(self, layout: Layout) -> ShardPlan:
        """Return the plan before the first product; without products it includes relu."""
        costs = self.costs
        elements = costs.elements(self.workload.rows, self.workload.widths[0], layout)
        plan = ShardPlan(
            devices=costs.devices,
            at_start=layout,
            layout=layout,
            create_s=costs.create_s * elements if self.end_to_end else 0.0,
            at_rest_elements=elements,
        )
        if self.workload.weights:
            return plan
        return replace(
            plan,
            compute_s=costs.touch_s * elements,
            busiest_flops=2.0 * elements,
            executed_flops=self.workload.flops * self.copies(layout),
            passing_elements=2 * elements,
        )

    def copies(self, layout: Layout) -> int:
        return self.costs.devices if layout == REPLICATED else 1

    def add_layer(self, plan: ShardPlan, index: int, layer: LayerSharding) -> ShardPlan:
        costs, mode, rows = self.costs, layer.mode, self.workload.rows
        inner, outer = self.workload.weights[index]
        moves: list[tuple[Move, int]] = [
            ((plan.layout, mode.input), rows * inner),
            ((layer.weight_at_rest, mode.weight), inner * outer),
            ((mode.product, layer.output), rows * outer),
        ]
        links = [(costs.moves[move], size) for move, size in moves if move in costs.moves]
        at_rest = costs.elements(inner, outer, layer.weight_at_rest)
        product = costs.elements(rows, outer, mode.product)
        output = costs.elements(rows, outer, layer.output)
        operands = costs.elements(rows, inner, mode.input)
        operands += costs.elements(inner, outer, mode.weight)
        busiest = 2.0 * product * (costs.share(inner) if mode.product == PARTIAL else inner)
        executed = 2.0 * rows * inner * outer * self.copies(mode.product)
        created = self.end_to_end and self.workload.creates_weights
        touch_s = costs.touch_s * output if self.workload.activation else 0.0
        communicate_s = sum(link.seconds(costs.itemsize * size) for link, size in links)
        return replace(
            plan,
            layers=(*plan.layers, layer),
            layout=layer.output,
            create_s=plan.create_s + (costs.create_s * at_rest if created else 0.0),
            compute_s=plan.compute_s + (costs.flop_s * busiest + touch_s),
            communicate_s=plan.communicate_s + communicate_s,
            latency_s=plan.latency_s + sum(link.latency_s for link, _ in links),
            busiest_flops=plan.busiest_flops + busiest,
            executed_flops=plan.executed_flops + executed,
            at_rest_elements=plan.at_rest_elements + at_rest,
            passing_elements=max(plan.passing_elements, operands + product + output),
        )

    def add_fetch(self, plan: ShardPlan) -> ShardPlan:
        rows, columns = self.workload.output
        if not self.end_to_end or plan.layout not in self.costs.fetch:
            return plan
        link = self.costs.fetch[plan.layout]
        return replace(
            plan,
            fetch_s=link.seconds(self.costs.itemsize * rows * columns),
            latency_s=plan.latency_s + link.latency_s,
            passing_elements=max(plan.passing_elements, 2 * rows * columns),
        )
