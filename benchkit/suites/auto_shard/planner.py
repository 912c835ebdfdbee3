"""Chooses how a chain of products is sharded over devices: by rows, columns, along the inner dimension, or not at all.

Seconds of every choice are told by a cost model: products at a rate, messages by latency and bandwidth (Hockney, 1994),
each as measured. Along the chain the cheapest way to every layout is kept (dynamic programming), among those that fit
the memory; so an MLP needs no gathering between its layers unless that is cheaper. Knows no torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from benchkit.suites.auto_shard.plans import (
    BY_NAME,
    LAYOUTS,
    MODES,
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
    """Plans a workload by what things cost; `end_to_end`: creating the operands and fetching the result count, too."""

    workload: Workload
    costs: Costs
    end_to_end: bool
    memory_elements: float = float("inf")

    def best(self) -> Plan:
        """The fastest plan that fits the memory; where none does, the one that needs least."""
        fastest = min(self.candidates, key=lambda plan: plan.total_s)
        if fastest.elements <= self.memory_elements:
            return fastest
        plans = self.plans(heeding_memory=True)
        fitting = [plan for plan in plans if plan.elements <= self.memory_elements]
        return min(fitting, key=lambda plan: plan.total_s) if fitting else min(plans, key=lambda plan: plan.elements)

    def alternatives(self) -> dict[str, float]:
        """By how the first product is shared out, the seconds of the best plan that does so, whatever its memory."""
        found: dict[str, float] = {}
        for plan in self.candidates:
            name = plan.layers[0].mode.name if plan.layers else plan.at_start
            found[name] = min(plan.total_s, found.get(name, plan.total_s))
        return found

    def axis0(self) -> Plan:
        """GT's rule: all is sharded along axis 0, or whole where that does not divide; weights are gathered first."""

        def at_rest(length: int) -> str:
            return REPLICATED if length % self.costs.devices else ROWS

        plan = self.start(at_rest(self.workload.rows))
        for index, (inner, _) in enumerate(self.workload.weights):
            mode = BY_NAME["rows" if plan.layout == ROWS else "everywhere"]
            plan = self.after(plan, index, Layer(mode, at_rest(inner), mode.gives))
        return self.finished(plan)

    def everywhere(self) -> Plan:
        """Nothing is sharded: each device does all of it."""
        plan = self.start(REPLICATED)
        for index in range(len(self.workload.weights)):
            plan = self.after(plan, index, Layer(BY_NAME["everywhere"], REPLICATED, REPLICATED))
        return self.finished(plan)

    @cached_property
    def candidates(self) -> list[Plan]:
        """The fastest to each layout with each first product."""
        return self.plans(heeding_memory=False)

    def plans(self, heeding_memory: bool) -> list[Plan]:
        """Finished plans, of which none is beaten by another with the same first product."""
        plans = [self.start(layout) for layout in LAYOUTS]
        for index in range(len(self.workload.weights)):
            further = [self.after(plan, index, layer) for plan in plans for layer in choices()]
            plans = pareto_front(further, heeding_memory)
        return [self.finished(plan) for plan in plans]

    def held_elements(self, plan: Plan) -> int:
        """What one device keeps between steps: operands that a step does not create, and a result that stays."""
        first = self.costs.elements(self.workload.rows, self.workload.widths[0], plan.at_start)
        if self.end_to_end:
            return 0 if self.workload.creates_weights else plan.at_rest_elements - first
        return plan.at_rest_elements + self.costs.elements(*self.workload.output, plan.layout)

    def start(self, layout: str) -> Plan:
        """The input is there, or is created, in a layout; where there is no product, with its relu."""
        rows, columns = self.workload.rows, self.workload.widths[0]
        elements = self.costs.elements(rows, columns, layout)
        alone = not self.workload.weights
        return Plan(
            devices=self.costs.devices,
            at_start=layout,
            layout=layout,
            create_s=self.costs.create_s * elements if self.end_to_end else 0.0,
            compute_s=self.costs.touch_s * elements if alone else 0.0,
            busiest_flops=2.0 * elements if alone else 0.0,
            executed_flops=self.workload.flops * self.copies(layout) if alone else 0.0,
            at_rest_elements=elements,
            passing_elements=2 * elements if alone else 0,
        )

    def copies(self, layout: str) -> int:
        """How often the devices together do what yields a matrix of this layout."""
        return self.costs.devices if layout == REPLICATED else 1

    def after(self, plan: Plan, index: int, layer: Layer) -> Plan:
        """One more product."""
        costs, mode, rows = self.costs, layer.mode, self.workload.rows
        inner, outer = self.workload.weights[index]
        moves: list[tuple[Move, int]] = [
            ((plan.layout, mode.enters), rows * inner),
            ((layer.weight_at_rest, mode.weight), inner * outer),
            ((mode.gives, layer.leaves), rows * outer),
        ]
        links = [(costs.moves[move], size) for move, size in moves if move in costs.moves]
        at_rest, output = costs.elements(inner, outer, layer.weight_at_rest), costs.elements(rows, outer, layer.leaves)
        given = costs.elements(rows, outer, mode.gives)
        passing = costs.elements(rows, inner, mode.enters) + costs.elements(inner, outer, mode.weight) + given + output
        busiest = 2.0 * given * (costs.share(inner) if mode.gives == PARTIAL else inner)
        created = self.end_to_end and self.workload.creates_weights
        compute_s = costs.flop_s * busiest + (costs.touch_s * output if self.workload.activation else 0.0)
        return replace(
            plan,
            layers=(*plan.layers, layer),
            layout=layer.leaves,
            create_s=plan.create_s + (costs.create_s * at_rest if created else 0.0),
            compute_s=plan.compute_s + compute_s,
            communicate_s=plan.communicate_s + sum(link.seconds(costs.itemsize * size) for link, size in links),
            latency_s=plan.latency_s + sum(link.latency_s for link, _ in links),
            busiest_flops=plan.busiest_flops + busiest,
            executed_flops=plan.executed_flops + 2.0 * rows * inner * outer * self.copies(mode.gives),
            at_rest_elements=plan.at_rest_elements + at_rest,
            passing_elements=max(plan.passing_elements, passing),
        )

    def finished(self, plan: Plan) -> Plan:
        """With the result fetched, where that counts."""
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


def choices() -> Iterator[Layer]:
    """Every way to do one product: a weight that is wanted whole may also lie in rows until then."""
    for mode in MODES:
        for at_rest in (REPLICATED, ROWS) if mode.weight == REPLICATED else (mode.weight,):
            for leaves in mode.leaves:
                yield Layer(mode, at_rest, leaves)


def pareto_front(plans: Sequence[Plan], heeding_memory: bool) -> list[Plan]:
    """Those that may still become the best, or the best with their first product."""
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: plan.total_s):
        rivals = [other for other in kept if (other.layout, first(other)) == (plan.layout, first(plan))]
        beaten = any(plan.dominated_by(other) for other in rivals) if heeding_memory else bool(rivals)
        if not beaten:
            kept.append(plan)
    return kept


def first(plan: Plan) -> str:
    return plan.layers[0].mode.name
