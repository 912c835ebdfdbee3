"""Chooses how a chain of products is sharded over devices.

Each product is sharded by rows, by columns, along the inner dimension, or not at all. A cost model
predicts the seconds of every choice: products at a rate, messages by latency and bandwidth
(Hockney, 1994), each as measured. Along the chain the planner keeps the cheapest way to every
layout (dynamic programming), among those that fit in memory. So an MLP needs no gathering between
its layers unless that is cheaper. Imports no torch.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from benchkit.suites.auto_shard.plan_space import choices, pareto_front
from benchkit.suites.auto_shard.plans import (
    BY_NAME,
    LAYOUTS,
    PARTIAL,
    REPLICATED,
    ROWS,
    Costs,
    Layer,
    Move,
    Plan,
)
from benchkit.suites.auto_shard.workloads import Workload


@dataclass(frozen=True)
class Planner:
    """Plans a workload by measured costs.

    Attributes:
        workload: the chain of products.
        costs: the measured costs on the devices.
        end_to_end: whether creating the operands and fetching the result count, too.
        memory_elements: the elements that fit in the memory of one device.
    """

    workload: Workload
    costs: Costs
    end_to_end: bool
    memory_elements: float = float("inf")

    def best(self) -> Plan:
        """Returns the fastest plan that fits in memory; where none fits, the smallest plan."""
        fastest = min(self.candidates, key=lambda plan: plan.total_s)
        if fastest.elements <= self.memory_elements:
            return fastest
        plans = self.plans(heeding_memory=True)
        fitting = [plan for plan in plans if plan.elements <= self.memory_elements]
        if fitting:
            return min(fitting, key=lambda plan: plan.total_s)
        return min(plans, key=lambda plan: plan.elements)

    def alternatives(self) -> dict[str, float]:
        """Returns the seconds of the best plan for each mode of the first product.

        Plans that do not fit in memory count, too.
        """
        found: dict[str, float] = {}
        for plan in self.candidates:
            name = plan.layers[0].mode.name if plan.layers else plan.at_start
            found[name] = min(plan.total_s, found.get(name, plan.total_s))
        return found

    def axis0(self) -> Plan:
        """Returns the plan of GT's rule.

        Everything is sharded along axis 0, or whole where that does not divide. Weights are
        gathered first.
        """

        def at_rest(length: int) -> str:
            return REPLICATED if length % self.costs.devices else ROWS

        plan = self.start(at_rest(self.workload.rows))
        for index, (inner, _) in enumerate(self.workload.weights):
            mode = BY_NAME["rows" if plan.layout == ROWS else "everywhere"]
            plan = self.after(plan, index, Layer(mode, at_rest(inner), mode.gives))
        return self.finished(plan)

    def everywhere(self) -> Plan:
        """Returns the plan without sharding: each device computes the whole workload."""
        plan = self.start(REPLICATED)
        for index in range(len(self.workload.weights)):
            plan = self.after(plan, index, Layer(BY_NAME["everywhere"], REPLICATED, REPLICATED))
        return self.finished(plan)

    @cached_property
    def candidates(self) -> list[Plan]:
        """The fastest plans to each layout with each first product."""
        return self.plans(heeding_memory=False)

    def plans(self, heeding_memory: bool) -> list[Plan]:
        """Returns finished plans, none dominated by another with the same first product.

        Args:
            heeding_memory: whether a slower plan is kept where it needs less memory.
        """
        plans = [self.start(layout) for layout in LAYOUTS]
        for index in range(len(self.workload.weights)):
            longer = [self.after(plan, index, layer) for plan in plans for layer in choices()]
            plans = pareto_front(longer, heeding_memory)
        return [self.finished(plan) for plan in plans]

    def held_elements(self, plan: Plan) -> int:
        """Returns the elements that one device keeps between steps.

        These are operands that a step does not create, and a result that stays.
        """
        workload, costs = self.workload, self.costs
        first = costs.elements(workload.rows, workload.widths[0], plan.at_start)
        if self.end_to_end:
            return 0 if workload.creates_weights else plan.at_rest_elements - first
        return plan.at_rest_elements + costs.elements(*workload.output, plan.layout)

    def start(self, layout: str) -> Plan:
        """Returns the plan before the first product, with the input in a layout.

        The input is there, or is created. Without products the plan includes relu.
        """
        costs = self.costs
        elements = costs.elements(self.workload.rows, self.workload.widths[0], layout)
        plan = Plan(
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

    def copies(self, layout: str) -> int:
        """Counts the devices that compute the same elements of a matrix in this layout."""
        return self.costs.devices if layout == REPLICATED else 1

    def after(self, plan: Plan, index: int, layer: Layer) -> Plan:
        """Returns a plan with one more product.

        Args:
            plan: the plan up to this product.
            index: which weight is multiplied.
            layer: how the product is done.
        """
        costs, mode, rows = self.costs, layer.mode, self.workload.rows
        inner, outer = self.workload.weights[index]
        moves: list[tuple[Move, int]] = [
            ((plan.layout, mode.enters), rows * inner),
            ((layer.weight_at_rest, mode.weight), inner * outer),
            ((mode.gives, layer.leaves), rows * outer),
        ]
        links = [(costs.moves[move], size) for move, size in moves if move in costs.moves]
        at_rest = costs.elements(inner, outer, layer.weight_at_rest)
        product = costs.elements(rows, outer, mode.gives)
        output = costs.elements(rows, outer, layer.leaves)
        operands = costs.elements(rows, inner, mode.enters)
        operands += costs.elements(inner, outer, mode.weight)
        busiest = 2.0 * product * (costs.share(inner) if mode.gives == PARTIAL else inner)
        executed = 2.0 * rows * inner * outer * self.copies(mode.gives)
        created = self.end_to_end and self.workload.creates_weights
        touch_s = costs.touch_s * output if self.workload.activation else 0.0
        communicate_s = sum(link.seconds(costs.itemsize * size) for link, size in links)
        return replace(
            plan,
            layers=(*plan.layers, layer),
            layout=layer.leaves,
            create_s=plan.create_s + (costs.create_s * at_rest if created else 0.0),
            compute_s=plan.compute_s + (costs.flop_s * busiest + touch_s),
            communicate_s=plan.communicate_s + communicate_s,
            latency_s=plan.latency_s + sum(link.latency_s for link, _ in links),
            busiest_flops=plan.busiest_flops + busiest,
            executed_flops=plan.executed_flops + executed,
            at_rest_elements=plan.at_rest_elements + at_rest,
            passing_elements=max(plan.passing_elements, operands + product + output),
        )

    def finished(self, plan: Plan) -> Plan:
        """Returns a plan with the result fetched, where that counts."""
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
