"""The space of plans: every way to do one product, and the plans that are not dominated."""

from collections.abc import Iterator, Sequence

from benchkit.suites.auto_shard.layouts import MODES, REPLICATED, ROWS
from benchkit.suites.auto_shard.plans import Layer, Plan


def choices() -> Iterator[Layer]:
    """Yields every way to do one product.

    A weight that is needed whole may also lie in rows until then.
    """
    for mode in MODES:
        layouts_at_rest = (REPLICATED, ROWS) if mode.weight == REPLICATED else (mode.weight,)
        for at_rest in layouts_at_rest:
            for output in mode.outputs:
                yield Layer(mode, at_rest, output)


def pareto_front(plans: Sequence[Plan], respect_memory_limit: bool) -> list[Plan]:
    """Returns the plans that may still become the best, or the best with their first product.

    Args:
        plans: plans of the same products.
        respect_memory_limit: whether a slower plan is kept where it needs less memory.
    """
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: plan.total_s):
        group = (plan.layout, plan.first)
        rivals = [other for other in kept if (other.layout, other.first) == group]
        if respect_memory_limit:
            rivals = [other for other in rivals if plan.dominated_by(other)]
        if not rivals:
            kept.append(plan)
    return kept
