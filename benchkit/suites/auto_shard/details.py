"""What the record keeps of a plan: the plan in words, and what the cost model predicts of it."""

from typing import Any

from benchkit.api.details import PREDICTED_S
from benchkit.suites.auto_shard.names import (
    AUTO,
    CREATES_WHOLE,
    DISPATCHER,
    LATENCY_S,
    WORK_SHARE,
    Sharding,
)
from benchkit.suites.auto_shard.planner import Planner
from benchkit.suites.auto_shard.plans import Plan


def of_plan(planner: Planner, plan: Plan, sharding: Sharding) -> dict[str, Any]:
    """Returns the details that the record keeps of a plan.

    These are the plan itself, its predicted seconds, and the predicted seconds of alternatives.
    """
    if plan.devices == 1:
        return {}
    found: dict[str, Any] = {
        "plan": str(plan),
        WORK_SHARE: plan.busiest_flops * plan.devices / planner.workload.flops,
        CREATES_WHOLE: planner.creates_whole(plan),
    }
    if sharding == DISPATCHER:  # the cost of its messages is not measured
        return found
    found[LATENCY_S] = plan.latency_s
    found[PREDICTED_S] = plan.total_s
    for phase, seconds in plan.seconds.items():
        found[f"predicted_{phase}_s"] = seconds
    if sharding == AUTO:
        others = sorted(planner.alternatives().items(), key=lambda item: item[1])
        texts = [f"{first} {1e3 * seconds:.3g} ms" for first, seconds in others]
        found["alternatives"] = ", ".join(texts)
    return found
