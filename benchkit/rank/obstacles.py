"""What keeps cases from running, as far as it is known before any has run."""

from collections.abc import Sequence

from benchkit.api.case import Case
from benchkit.rank.control_group import ControlGroup, Finding
from benchkit.rank.throttle_controller import ThrottleController


def known_beforehand(
    cases: Sequence[Case], group: ControlGroup, controller: ThrottleController
) -> tuple[list[str], list[Finding]]:
    """Returns each case's status before it has run, and the first rank's reason for it.

    Both are the same on all ranks.
    """
    lacking = group.first_reason([case.unavailable for case in cases])
    skipped = group.first_reason([case.skip or stays_slowed(case, controller) for case in cases])
    statuses = []
    findings = []
    for lack, skip in zip(lacking, skipped, strict=True):
        if lack.reason:
            statuses.append("unavailable")
            findings.append(lack)
        else:
            statuses.append("skipped" if skip.reason else "ok")
            findings.append(skip)
    return statuses, findings


def stays_slowed(case: Case, controller: ThrottleController) -> str:
    """Returns why a case that is to run at full speed cannot; "" if it can, or need not."""
    if not case.unslowed or controller.throttle.switchable:
        return ""
    return "a share of a GPU cannot be lifted within a job: compare with hardware.slowdown=1"
