"""Verifies, times and verifies again the cases of one job; reports each as the record stores it."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchkit.api.case import Case
from benchkit.api.schema import RunConfig
from benchkit.errors import InvalidResult, starved
from benchkit.measure.clocks import Clock, HostClock
from benchkit.measure.measurement import Measurement
from benchkit.measure.timer import measure
from benchkit.rank.control_group import Finding, Group
from benchkit.rank.throttle_controller import ThrottleController


@dataclass
class Stopwatch:
    """Notes when each phase began, on the host's monotonic clock, which the agent shares."""

    began_s: dict[str, float] = field(default_factory=dict)

    def enter(self, phase: str) -> None:
        self.began_s[phase] = time.perf_counter()


def run_cases(
    cases: list[Case],
    config: RunConfig,
    clock: Clock,
    group: Group,
    stopwatch: Stopwatch,
    controller: ThrottleController,
) -> list[dict[str, Any]]:
    """Verifies, times and verifies again; returns the cases as the record stores them.

    A case that any rank skips or finds wrong is not timed.
    """
    stopwatch.enter("verify")
    statuses, findings = known_beforehand(cases, group, controller)
    note_invalid(cases, statuses, findings, group)
    timed = passing(statuses)
    stopwatch.enter("measure")
    measurements = measure(
        [cases[index] for index in timed],
        config.measure,
        clock=clock,
        barrier=group.barrier,
        exchange=group.exchange,
        seed=config.seed,
        before=lambda case: controller.set_for(case.unslowed),
        single_rank=group.world_size == 1,
    )
    controller.release()
    measured = {}
    for index, measurement in zip(timed, measurements, strict=True):
        if measurement.starved:
            statuses[index], findings[index] = "oom", Finding(measurement.starved, 0)
        else:
            measured[index] = measurement
    stopwatch.enter("verify_again")
    note_invalid(cases, statuses, findings, group)
    return [
        case_report(case, statuses[index], findings[index], measured.get(index), clock)
        for index, case in enumerate(cases)
    ]


def known_beforehand(
    cases: Sequence[Case], group: Group, controller: ThrottleController
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


def passing(statuses: list[str]) -> list[int]:
    return [index for index, status in enumerate(statuses) if status == "ok"]


def note_invalid(
    cases: list[Case], statuses: list[str], findings: list[Finding], group: Group
) -> None:
    """Verifies the cases that are ok so far, on all ranks together.

    It marks in `statuses` and `findings` the cases that are wrong or find too little memory.
    """
    indices = passing(statuses)
    reasons = []
    for index in indices:
        reason = ""
        try:
            cases[index].verify()
        except InvalidResult as error:
            reason = str(error) or "a wrong result"
        except Exception as error:
            shortage = starved(error)
            if group.world_size > 1 or not shortage:
                raise  # the other ranks wait in verify()
            statuses[index], findings[index] = "oom", Finding(shortage, 0)
        reasons.append(reason)
    for index, finding in zip(indices, group.first_reason(reasons), strict=True):
        if finding.reason:
            statuses[index], findings[index] = "invalid", finding


def case_report(
    case: Case, status: str, finding: Finding, measurement: Measurement | None, clock: Clock
) -> dict[str, Any]:
    """Returns one case as the record stores it, with times rounded to the clock's nanosecond.

    Starts are stored only if the host's clock gave them: its starts and durations can be added up.
    """
    report: dict[str, Any] = {
        "labels": dict(case.labels),
        "status": status,
        **asdict(finding),
        **asdict(case.work),
        "name": case.name,
        "against": case.against,
        "ranks": case.ranks,
        "bound": case.bound,
        "unslowed": case.unslowed,
        "parts": asdict(case.parts),
        "details": {} if measurement is None else dict(case.details()),
    }
    if measurement is None:
        return report
    report |= asdict(measurement)
    for name in ("warmup_s", "samples_s", "start_offsets_s"):
        report[name] = nanoseconds(report[name])
    for name, spent_s in report["regions_s"].items():
        report["regions_s"][name] = nanoseconds(spent_s)
    if clock.name != HostClock.name:
        report["start_offsets_s"] = None
    del report["typical_s"], report["starved"]
    return report


def nanoseconds(rows: list[list[float]]) -> list[list[float]]:
    """Rounds seconds to the clock's nanosecond."""
    return [[round(value, 9) for value in row] for row in rows]
