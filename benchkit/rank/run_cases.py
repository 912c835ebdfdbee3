"""Verifies, times and verifies again the cases of one job; reports each as the record stores it."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import partial

from benchkit.api.case import Case
from benchkit.api.groups import COLD, GRAPH, MeasureConfig
from benchkit.api.schema import RunConfig
from benchkit.measure.clocks import Clock, HostClock
from benchkit.measure.measurement import Measurement
from benchkit.measure.sampler import Sampler
from benchkit.measure.timer import measure
from benchkit.rank.around_samples import hooks_of
from benchkit.rank.control_group import ControlGroup, Finding
from benchkit.rank.gpu_watch import GpuWatch
from benchkit.rank.graphs import as_timed, capture
from benchkit.rank.stopwatch import Stopwatch
from benchkit.rank.throttle_controller import ThrottleController
from benchkit.rank.verdicts import Verdicts
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
    """Verifies, times and verifies timed calls; returns the cases as the record stores them.

    A case that any rank skips or finds wrong is not timed. Where first calls are timed, cases are
    verified only afterwards, since verifying would make their first calls.
    """
    stopwatch.enter("verify")
    verdicts = verified(cases, config, group, controller, stopwatch)
    timed = verdicts.passing()
    stopwatch.enter("measure", bound(len(timed), config.measure))
    hooks = hooks_of(config, controller, group.world_size, watch.turn_to)
    running = as_timed([cases[index] for index in timed], config)
    measurements = measure(
        running,
        config.measure,
        clock=clock,
        barrier=group.barrier,
        exchange=group.exchange,
        seed=config.seed,
        hooks=hooks,
    )
    controller.release()
    for measurement, state in zip(measurements, watch.end(running, group.exchange), strict=True):
        measurement.disturbance |= state
    measured = dict(zip(timed, measurements, strict=True))
    for index, measurement in measured.items():
        if measurement.oom_reason:
            verdicts.note_oom(index, measurement.oom_reason)
    stopwatch.enter("verify_again")
    sampler = Sampler(clock, group.barrier, hooks)
    unchecked = verdicts.note_timed(
        lambda index: partial(
            sampler.check, cases[index], measured[index].calls_per_sample, measured[index].lead_s
        )
    )
    return [
        case_record(case, cases, *verdicts.of(index), measured.get(index), clock, unchecked[index])
        for index, case in enumerate(cases)
    ]


def verified(
    cases: list[Case],
    config: RunConfig,
    group: ControlGroup,
    controller: ThrottleController,
    stopwatch: Stopwatch,
) -> Verdicts:
    """Returns what is known of the cases before they are timed."""
    verdicts = Verdicts(cases, group, stopwatch.tell)
    verdicts.note("unavailable", lambda case: case.unavailable)
    verdicts.note("skipped", lambda case: case.skip or stays_slowed(case, controller))
    if config.measure.mode == COLD:
        return verdicts
    verdicts.note_invalid()
    if config.measure.mode == GRAPH:
        verdicts.note("unavailable", lambda case: capture(case, config))
        verdicts.note_invalid()  # what the replays compute
    return verdicts


def bound(num_cases: int, limits: MeasureConfig) -> str:
    """Says how many cases are timed and for how long at most.

    An example is "3 cases, at most 66 s, until 17:40:05": the note does not change meanwhile.
    """
    most_s = num_cases * (limits.max_seconds + limits.max_warmup_seconds)
    end = datetime.now() + timedelta(seconds=most_s)
    cases = f"{num_cases} case{'s' * (num_cases != 1)}"
    return f"{cases}, at most {most_s:.3g} s, until {end:%H:%M:%S}"


def stays_slowed(case: Case, controller: ThrottleController) -> str:
    """Returns why a case that is to run at full speed cannot; "" if it can, or need not."""
    if not case.unslowed or controller.throttle.switchable:
        return ""
    return "a share of a GPU cannot be lifted within a job: compare with hardware.slowdown=1"


def case_record(
    case: Case,
    cases: Sequence[Case],
    status: str,
    finding: Finding,
    measurement: Measurement | None,
    clock: Clock,
    unchecked: str = "",
) -> CaseRecord:
    """Returns one case as the record stores it.

    Args:
        case: of the job.
        cases: all cases of the job; references are stored as positions among them.
        status: of the case.
        finding: why it is not ok, and the rank that says so.
        measurement: its samples; None, or without them, if it was not timed.
        clock: that timed it.
        unchecked: what its timed calls computed without a check; "" if nothing.
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
    if measurement is None or measurement.oom_reason:
        return described
    return replace(with_samples(described, case, measurement, clock), unchecked=unchecked)


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
