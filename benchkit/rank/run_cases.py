"""Verifies, times and verifies again the cases of one job; reports each as the record stores it."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from benchkit.api.case import Case
from benchkit.api.schema import RunConfig
from benchkit.errors import InvalidResult, oom_reason
from benchkit.measure.clocks import Clock, HostClock
from benchkit.measure.measurement import Measurement
from benchkit.measure.timer import measure
from benchkit.rank.control_group import ControlGroup, Finding
from benchkit.rank.gpu_watch import GpuWatch
from benchkit.rank.obstacles import known_beforehand
from benchkit.rank.stopwatch import Stopwatch
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.record.case import CaseRecord, ComponentPositions


def run_cases(
    cases: list[Case],
    config: RunConfig,
    clock: Clock,
    group: ControlGroup,
    stopwatch: Stopwatch,
    controller: ThrottleController,
    watch: GpuWatch,
) -> list[CaseRecord]:
    """Verifies, times and verifies again; returns the cases as the record stores them.

    A case that any rank skips or finds wrong is not timed.
    """
    stopwatch.enter("verify")
    statuses, findings = known_beforehand(cases, group, controller)
    note_invalid(cases, statuses, findings, group)
    timed = passing(statuses)
    stopwatch.enter("measure")
    measurements = time_cases(
        [cases[index] for index in timed], config, clock, group, controller, watch
    )
    measured = {}
    for index, measurement in zip(timed, measurements, strict=True):
        if measurement.oom_reason:
            statuses[index], findings[index] = "oom", Finding(measurement.oom_reason, 0)
        else:
            measured[index] = measurement
    stopwatch.enter("verify_again")
    note_invalid(cases, statuses, findings, group)
    return [
        case_record(case, cases, statuses[index], findings[index], measured.get(index), clock)
        for index, case in enumerate(cases)
    ]


def time_cases(
    cases: list[Case],
    config: RunConfig,
    clock: Clock,
    group: ControlGroup,
    controller: ThrottleController,
    watch: GpuWatch,
) -> list[Measurement]:
    """Times cases; returns their measurements, with the state of the GPUs at both ends."""

    def before(case: Case) -> None:
        controller.set_for(case.unslowed)
        watch.turn_to(case)

    measurements = measure(
        cases,
        config.measure,
        clock=clock,
        barrier=group.barrier,
        exchange=group.exchange,
        seed=config.seed,
        before=before,
        single_rank=group.world_size == 1,
    )
    controller.release()
    states = watch.end(cases, group.exchange)
    for measurement, state in zip(measurements, states, strict=True):
        measurement.disturbance |= state
    return measurements


def passing(statuses: list[str]) -> list[int]:
    return [index for index, status in enumerate(statuses) if status == "ok"]


def note_invalid(
    cases: list[Case], statuses: list[str], findings: list[Finding], group: ControlGroup
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
            shortage = oom_reason(error)
            if group.world_size > 1 or not shortage:
                raise  # the other ranks wait in verify()
            statuses[index], findings[index] = "oom", Finding(shortage, 0)
        reasons.append(reason)
    for index, finding in zip(indices, group.first_reason(reasons), strict=True):
        if finding.reason:
            statuses[index], findings[index] = "invalid", finding


def case_record(
    case: Case,
    cases: Sequence[Case],
    status: str,
    finding: Finding,
    measurement: Measurement | None,
    clock: Clock,
) -> CaseRecord:
    """Returns one case as the record stores it.

    Args:
        case: of the job.
        cases: all cases of the job; references are stored as positions among them.
        status: of the case.
        finding: why it is not ok, and the rank that says so.
        measurement: its samples; None if it was not timed.
        clock: that timed it.
    """
    described = CaseRecord(
        labels=dict(case.labels),
        status=status,
        reason=finding.reason,
        rank=finding.rank,
        **asdict(case.work),
        baseline=position_of(case.baseline, cases),
        is_component=case.is_component,
        unslowed=case.unslowed,
        components=ComponentPositions(
            computation=position_of(case.components.computation, cases),
            communication=position_of(case.components.communication, cases),
        ),
        ranks=case.ranks,
        estimator=case.estimator,
    )
    return described if measurement is None else with_samples(described, case, measurement, clock)


def with_samples(
    described: CaseRecord, case: Case, measurement: Measurement, clock: Clock
) -> CaseRecord:
    """Returns a case that was timed, with times rounded to the clock's nanosecond.

    Starts are stored only if the host's clock gave them: its starts and durations can be added up.
    """
    starts_s = nanoseconds(measurement.start_offsets_s)
    return replace(
        described,
        details=dict(case.details()),
        calls_per_sample=measurement.calls_per_sample,
        blocks=measurement.blocks,
        warmup_s=nanoseconds(measurement.warmup_s),
        steady=measurement.steady,
        samples_s=nanoseconds(measurement.samples_s),
        start_offsets_s=starts_s if clock.name == HostClock.name else None,
        regions_s={name: nanoseconds(rows) for name, rows in measurement.regions_s.items()},
        disturbance=measurement.disturbance,
        elapsed_s=measurement.elapsed_s,
        stopped_by=measurement.stopped_by,
        converged=measurement.converged,
    )


def position_of(case: Case | None, cases: Sequence[Case]) -> int | None:
    return None if case is None else cases.index(case)


def nanoseconds(rows: list[list[float]]) -> list[list[float]]:
    """Rounds seconds to the clock's nanosecond."""
    return [[round(value, 9) for value in row] for row in rows]
