"""The space of plans: every way to do one product, and the plans that are not dominated."""

from collections.abc import Iterator, Sequence

from benchkit.suites.auto_shard.plans import MODES, REPLICATED, ROWS, Layer, Plan


def choices() -> Iterator[Layer]:
    """Yields every way to do one product.

    A weight that is needed whole may also lie in rows until then.
    """
    for mode in MODES:
        layouts_at_rest = (REPLICATED, ROWS) if mode.weight == REPLICATED else (mode.weight,)
        for at_rest in layouts_at_rest:
            for leaves in mode.leaves:
                yield Layer(mode, at_rest, leaves)


def pareto_front(plans: Sequence[Plan], heeding_memory: bool) -> list[Plan]:
    """Returns the plans that may still become the best, or the best with their first product.

    Args:
        plans: plans of the same products.
        heeding_memory: whether a slower plan is kept where it needs less memory.
    """
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda plan: plan.total_s):
        group = (plan.layout, first(plan))
        rivals = [other for other in kept if (other.layout, first(other)) == group]
        if heeding_memory:
            rivals = [other for other in rivals if plan.dominated_by(other)]
        if not rivals:
            kept.append(plan)
    return kept


def first(plan: Plan) -> str:
    """Returns the name of the mode of a plan's first product."""
    return plan.layers[0].mode.name
