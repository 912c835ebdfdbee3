"""Verifies, times and verifies again the cases of one job, and reports each as the record stores it."""

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
from benchkit.rank.calibration import ThrottleController
from benchkit.rank.control_group import Finding, Group


@dataclass
class Stopwatch:
    """Names when each phase began, on the host's monotonic clock, which the agent shares."""

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
    """Verifies, times and verifies again; a case that any rank skips or finds wrong is not timed."""
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
    for index, measurement in zip(timed, measurements, strict=True):
        if measurement.starved:
            statuses[index], findings[index] = "oom", Finding(measurement.starved, 0)
    stopwatch.enter("verify_again")
    note_invalid(cases, statuses, findings, group)
    measured = {index: each for index, each in zip(timed, measurements, strict=True) if not each.starved}
    return [
        case_report(case, status, finding, measured.get(index), clock)
        for index, (case, status, finding) in enumerate(zip(cases, statuses, findings, strict=True))
    ]


def known_beforehand(
    cases: Sequence[Case], group: Group, controller: ThrottleController
) -> tuple[list[str], list[Finding]]:
    """Per case its status before anything of it has run, and the first rank's reason; the same on all ranks."""
    lacking = group.first_reason([case.unavailable for case in cases])
    short = group.first_reason([case.skip or stays_slowed(case, controller) for case in cases])
    statuses = [
        "unavailable" if lack.reason else "skipped" if skip.reason else "ok"
        for lack, skip in zip(lacking, short, strict=True)
    ]
    return statuses, [lack if lack.reason else skip for lack, skip in zip(lacking, short, strict=True)]


def stays_slowed(case: Case, controller: ThrottleController) -> str:
    """Why a case that is to run at full speed cannot; "" where it can, or need not."""
    if not case.unslowed or controller.throttle.switchable:
        return ""
    return "a share of a GPU cannot be lifted within a job: compare with hardware.slowdown=1"


def passing(statuses: list[str]) -> list[int]:
    return [index for index, status in enumerate(statuses) if status == "ok"]


def note_invalid(cases: list[Case], statuses: list[str], findings: list[Finding], group: Group) -> None:
    """Verifies the cases that are ok so far on all ranks together; marks what is wrong, or finds too little memory."""
    indices = passing(statuses)
    reasons = []
    for index in indices:
        try:
            cases[index].verify()
            reasons.append("")
        except InvalidResult as error:
            reasons.append(str(error) or "a wrong result")
        except Exception as error:
            if group.world_size > 1 or not (why := starved(error)):
                raise  # the other ranks wait in it
            statuses[index], findings[index] = "oom", Finding(why, 0)
            reasons.append("")
    for index, finding in zip(indices, group.first_reason(reasons), strict=True):
        if finding.reason:
            statuses[index], findings[index] = "invalid", finding


def case_report(
    case: Case, status: str, finding: Finding, measurement: Measurement | None, clock: Clock
) -> dict[str, Any]:
    """One case as the record stores it; times rounded to the clock's nanosecond.

    Only the host's clock gives starts and durations that can be added up.
    """
    report: dict[str, Any] = {
        "labels": dict(case.labels),
        "status": status,
        **asdict(finding),
        **asdict(case.work),
        **{name: getattr(case, name) for name in ("name", "against", "ranks", "bound", "unslowed")},
        "parts": asdict(case.parts),
        "details": {} if measurement is None else dict(case.details()),
    }
    if measurement is None:
        return report
    rounded: dict[str, Any] = {
        name: nanoseconds(getattr(measurement, name)) for name in ("warmup_s", "samples_s", "start_offsets_s")
    }
    rounded["regions_s"] = {name: nanoseconds(spent) for name, spent in measurement.regions_s.items()}
    if clock.name != HostClock.name:
        rounded["start_offsets_s"] = None
    result = report | asdict(measurement) | rounded
    return {name: value for name, value in result.items() if name not in ("typical_s", "starved")}


def nanoseconds(rows: list[list[float]]) -> list[list[float]]:
    """Seconds, rounded to the clock's nanosecond."""
    return [[round(value, 9) for value in row] for row in rows]
