"""Times a point's baseline and its best case again, each alone in fresh ranks.

Cases that take turns share caches, allocators, clocks and power, so turns may change their times.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchkit.point.agents import heard
from benchkit.record.case import CaseRecord, Labels
from benchkit.record.record import Outcome
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents


def with_alone(
    outcome: Outcome, agents: Agents, run: Callable[[Labels, int], Outcome], *, always: bool
) -> Outcome:
    """Returns an outcome with what its baselines and best cases take alone; on all agents in step.

    A case that fails alone is a warning.

    Args:
        outcome: of all cases, which agent 0 alone knows.
        agents: of the point.
        run: runs fresh ranks for the case with these labels, which is the n-th so far.
        always: whether the first and the best case of a job without baselines are timed, too.
    """
    began_s = time.perf_counter()
    found, warnings = [], []
    are_compared = any(case.baseline is not None for case in outcome.cases)
    kept = chosen(outcome.cases) if are_compared or always else []
    own = [dict(case.labels) for case in kept]
    wanted = heard(agents.exchange(own, EXCHANGE_TIMEOUT_S)[0], list[Labels])
    for number, labels in enumerate(wanted):
        ended = run(labels, number)
        found += [case for case in ended.cases if case.status == "ok"]
        if ended.status != "ok":
            reason = ended.error.message.splitlines()[0] if ended.error else ""
            warnings.append(f"case {labels} alone: {ended.status}: {reason}")
    return replace(
        outcome,
        alone=found,
        warnings=[*outcome.warnings, *warnings],
        phases_s=outcome.phases_s | ({"alone": time.perf_counter() - began_s} if wanted else {}),
    )


def chosen(cases: Sequence[CaseRecord]) -> list[CaseRecord]:
    """Returns the baselines and, of each baseline's group, the fastest case, in order.

    In a job without baselines the cases that do equal work, such as those of one size, are a
    group, whose first case stands for the baseline. A case without a rival has taken turns all the
    same, unless it is the only one of its job.
    """
    timed = [case for case in cases if case.samples_s]
    if len(timed) < 2:
        return []
    named = {case.baseline for case in cases if case.baseline is not None}
    whole = [case for case in timed if case.status == "ok" and not case.is_component]
    groups: dict[object, list[CaseRecord]] = {}
    for case in whole:
        position = cases.index(case)
        work = (case.payload_bytes, case.useful_flops)
        group = position if position in named else case.baseline
        groups.setdefault(group if named else work, []).append(case)
    kept = [cases[position] for position in sorted(named)]
    for rivals in groups.values():
        if not named:
            kept.append(rivals[0])
        kept.append(min(rivals, key=lambda case: case.typical_s))
    return [case for case in cases if case in kept and case.status == "ok"]
