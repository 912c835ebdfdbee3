"""Chooses how a chain of products is sharded over devices.

Each product is sharded by rows, by columns, along the inner dimension, or not at all. A cost model
predicts the seconds of every choice: products at a rate, messages by latency and bandwidth
(Hockney, 1994), each as measured. Along the chain the planner keeps the cheapest way to every
layout (dynamic programming), among those that fit in memory. So an MLP needs no gathering between
its layers unless that is cheaper. Imports no torch.
"""

from dataclasses import dataclass, replace
from functools import cached_property

from benchkit.suites.auto_shard.layouts import (
    BY_ROWS,
    EVERYWHERE,
    LAYOUTS,
    PARTIAL,
    REPLICATED,
    ROWS,
    Costs,
    Layout,
    Mode,
    Move,
)
from benchkit.suites.auto_shard.plan_space import choices, pareto_front
from benchkit.suites.auto_shard.plans import Layer, Plan
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
        plans = self.plans(respect_memory_limit=True)
        fitting = [plan for plan in plans if plan.elements <= self.memory_elements]
        if fitting:
            return min(fitting, key=lambda plan: plan.total_s)
        return min(plans, key=lambda plan: plan.elements)

    def alternatives(self) -> dict[Mode | Layout, float]:
        """Returns the seconds of the best plan for each way to begin.

        Plans that do not fit in memory count, too.
        """
        slowest_first = sorted(self.candidates, key=lambda plan: plan.total_s, reverse=True)
        return {plan.first: plan.total_s for plan in slowest_first}

    def axis0(self) -> Plan:
        """Returns the plan of GT's rule.

        Everything is sharded along axis 0, or whole where that does not divide. Weights are
        gathered first.
        """

        def at_rest(length: int) -> Layout:
            return REPLICATED if length % self.costs.devices else ROWS

        plan = self.start(at_rest(self.workload.rows))
        for index, (inner, _) in enumerate(self.workload.weights):
            mode = BY_ROWS if plan.layout == ROWS else EVERYWHERE
            plan = self.after(plan, index, Layer(mode, at_rest(inner), mode.product))
        return self.finished(plan)

    def everywhere(self) -> Plan:
        """Returns the plan without sharding: each device computes the whole workload."""
        plan = self.start(REPLICATED)
        for index in range(len(self.workload.weights)):
            plan = self.after(plan, index, Layer(EVERYWHERE, REPLICATED, REPLICATED))
        return self.finished(plan)

    @cached_property
    def candidates(self) -> list[Plan]:
        """The fastest plans to each layout with each first product."""
        return self.plans(respect_memory_limit=False)

    def plans(self, respect_memory_limit: bool) -> list[Plan]:
        """Returns finished plans, none dominated by another with the same first product.

        Args:
            respect_memory_limit: whether a slower plan is kept where it needs less memory.
        """
        plans = [self.start(layout) for layout in LAYOUTS]
        for index in range(len(self.workload.weights)):
            longer = [self.after(plan, index, layer) for plan in plans for layer in choices()]
            plans = pareto_front(longer, respect_memory_limit)
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

    def creates_whole(self, plan: Plan) -> bool:
        """Returns whether a step creates an operand whole on each device."""
        return self.end_to_end and REPLICATED in plan.at_rest[: self.workload.num_created]

    def start(self, layout: Layout) -> Plan:
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

    def copies(self, layout: Layout) -> int:
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
