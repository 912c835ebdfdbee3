"""Verify, time and verify again the cases of one job; report each as the record stores it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from benchkit.api.case import Call, Case, noop
from benchkit.api.keys import COLD, GRAPH, MeasureConfig, RunConfig
from benchkit.api.memory import free_unused
from benchkit.errors import InvalidResult, Reason, oom_reason
from benchkit.measure.clocks import Clock, HostClock
from benchkit.measure.sampler import Hooks, Sampler
from benchkit.measure.timer import Measurement, measure
from benchkit.rank.backends import ControlGroup, RankReason
from benchkit.rank.cuda_graphs import capture, without_regions
from benchkit.rank.devices import GpuWatch
from benchkit.rank.sampling_hooks import hooks_of
from benchkit.rank.throttle import ThrottleController
from benchkit.record.record import CaseRecord, CaseSamples, ComponentPositions

PHASE_TEXTS = {
    "init": "joining the other ranks",
    "calibrate": "calibrating the slowdown",
    "build": "building cases",
    "verify": "verifying",
    "measure": "measuring",
    "verify_again": "verifying again",
    "profile": "profiling",
    "exit": "ending",
}
"""What a rank does in each phase, in words."""


def ignore(note: str) -> None:
    """Take a note that nobody reads."""


@dataclass
class Stopwatch:
    """Begin of each phase, on the host's monotonic clock, which the agent shares.

    `report_phase` takes what the rank does now; it is not called while samples are taken.
    """

    began_s: dict[str, float] = field(default_factory=dict)
    report_phase: Callable[[str], None] = ignore

    def enter(self, phase: str, what: str = "") -> None:
        """Begin a phase; `what` says with how much, such as "12 cases"."""
        self.report_phase(f"{PHASE_TEXTS[phase]} {what}".rstrip())
        self.began_s[phase] = time.perf_counter()


@dataclass
class RankRun:
    """What a rank measures with."""

    config: RunConfig
    clock: Clock
    group: ControlGroup
    controller: ThrottleController
    watch: GpuWatch
    stopwatch: Stopwatch = field(default_factory=Stopwatch)


@dataclass
class CaseRun:
    """One case on its way to the record.

    Attributes:
        number: place among the cases of the job, such as "3 of 12".
        status: status so far, alike on all ranks.
        unchecked: what its timed calls computed without a check; "" if nothing.
    """

    case: Case
    number: str = ""
    status: str = "ok"
    why: RankReason = field(default_factory=RankReason)
    measurement: Measurement | None = None
    unchecked: str = ""

    def end(self, status: str, why: RankReason) -> None:
        self.status, self.why = status, why


def run_cases(
    run: RankRun, cases: Sequence[Case], store: Callable[[list[CaseRecord]], object] = noop
) -> list[CaseRecord]:
    """Verify, time and verify again; return the cases as the record stores them.

    All ranks call this together. A case that any rank skips or finds wrong is not timed. Where
    first calls are timed, cases are verified only afterwards, since verifying would make their
    first calls. From time to time `store` receives what there is so far.
    """
    config, controller = run.config, run.controller
    hooks = hooks_of(config, controller, run.group.world_size, run.watch.switch_case)
    all_cases = [CaseRun(case, f"{i} of {len(cases)}") for i, case in enumerate(cases, start=1)]
    run.stopwatch.enter("verify")
    mark_cases(run.group, all_cases, "unavailable", lambda each: each.case.unavailable)
    mark_cases(
        run.group,
        all_cases,
        "skipped",
        lambda each: each.case.skip or stays_slowed(each.case, controller),
    )
    if config.measure.mode != COLD:
        verify(run, all_cases)
    if config.measure.mode == GRAPH:
        mark_cases(run.group, all_cases, "unavailable", lambda each: capture(each.case, config))
        verify(run, all_cases)  # what the replays compute

    timed = [each for each in all_cases if each.status == "ok"]
    run.stopwatch.enter("measure", time_limit_text(len(timed), config.measure))

    def reports() -> list[CaseRecord]:
        return [case_record(each, cases, run.clock) for each in all_cases]

    time_cases(run, timed, hooks, SamplesSoFar(timed, lambda: store(reports())))

    run.stopwatch.enter("verify_again")
    verify_timed(run, all_cases, Sampler(run.clock, run.group.barrier, hooks))
    return [with_details(report, each) for report, each in zip(reports(), all_cases, strict=True)]


STORE_EVERY_S = 1.0
STORE_SHARE = 0.01
"""Largest share of rank 0's time in which it stores the samples so far."""


@dataclass
class SamplesSoFar:
    """Stores from time to time, between blocks, what has been measured so far."""

    timed: Sequence[CaseRun]
    store: Callable[[], object]
    due_s: float = field(default_factory=lambda: time.perf_counter() + STORE_EVERY_S)

    def __call__(self, measurements: Sequence[Measurement]) -> None:
        began_s = time.perf_counter()
        if began_s < self.due_s:
            return
        for each, measurement in zip(self.timed, measurements, strict=True):
            each.measurement = measurement
        self.store()
        ended_s = time.perf_counter()
        self.due_s = ended_s + max(STORE_EVERY_S, (ended_s - began_s) / STORE_SHARE)


def time_cases(
    run: RankRun, timed: Sequence[CaseRun], hooks: Hooks, after_block: SamplesSoFar
) -> None:
    """Time cases in interleaved blocks, with what is seen of the GPUs meanwhile."""
    running = [each.case for each in timed]
    if run.config.measure.mode == GRAPH:
        running = [without_regions(case) for case in running]

    def check(index: int, measurement: Measurement, sampler: Sampler) -> bool:
        def reason_of(each: CaseRun) -> Reason:
            return timed_verification_error(each.case, measurement, sampler)[0]

        mark_cases(run.group, [timed[index]], "invalid", reason_of)
        return timed[index].status == "ok"

    measurements = measure(
        running,
        run.config.measure,
        clock=run.clock,
        barrier=run.group.barrier,
        all_gather=run.group.all_gather,
        seed=run.config.seed,
        hooks=hooks,
        after_block=after_block,
        check=check,
    )
    run.controller.release()
    states = run.watch.end(running, run.group.all_gather)
    for each, measurement, state in zip(timed, measurements, states, strict=True):
        measurement.disturbance |= state
        each.measurement = measurement
        if measurement.oom_reason:
            each.end("oom", RankReason(measurement.oom_reason, 0))
        elif not measurement.times().any():
            each.end("invalid", RankReason("every time is 0: the clock stands still", 0))


def mark_cases(
    group: ControlGroup,
    all_cases: Sequence[CaseRun],
    status: str,
    reason_of: Callable[[CaseRun], Reason],
) -> None:
    """Give a status to the cases that are ok and for which any rank has a reason.

    A case that lacks memory on the only rank is out of memory. Of several ranks others may wait for
    this one, so there it ends the job.
    """
    sound = [each for each in all_cases if each.status == "ok"]
    reasons = []
    for each in sound:
        reason = ""
        try:
            reason = reason_of(each)
        except Exception as error:
            shortage = oom_reason(error)
            if group.world_size > 1 or not shortage:
                raise
            each.end("oom", RankReason(shortage, 0))
        if each.status == "oom":
            free_unused()  # only here, because the exception held the case's tensors
        reasons.append(reason)
    for each, why in zip(sound, group.first_reason(reasons), strict=True):
        if why.reason:
            each.end(status, why)


def verify(run: RankRun, all_cases: Sequence[CaseRun]) -> None:
    """Verify the cases that are ok, by a call that no sample times."""

    def reason_of(each: CaseRun) -> Reason:
        run.stopwatch.report_phase(f"verifying case {each.number}")
        return verification_error(each.case, each.case.call_once)

    mark_cases(run.group, all_cases, "invalid", reason_of)


def verify_timed(run: RankRun, all_cases: Sequence[CaseRun], sampler: Sampler) -> None:
    """Verify the cases that are ok by calls made as their samples were; note what is unchecked."""
    checked: set[str] = set()

    def reason_of(each: CaseRun) -> Reason:
        assert each.measurement  # a case that is ok was timed
        run.stopwatch.report_phase(f"verifying case {each.number}")
        reason, is_checked = timed_verification_error(each.case, each.measurement, sampler)
        checked.update([each.number] * is_checked)
        return reason

    mark_cases(run.group, all_cases, "invalid", reason_of)
    rows = run.group.all_gather([float(each.number in checked) for each in all_cases])
    for each, by_rank in zip(all_cases, zip(*rows, strict=True), strict=True):
        none = "all: the check makes no timed call"
        each.unchecked = each.case.unchecked if any(by_rank) else none


def timed_verification_error(
    case: Case, measurement: Measurement, sampler: Sampler
) -> tuple[Reason, bool]:
    """Return why a case is wrong, by a call made as its samples are, and whether any was checked.

    All ranks call this together.
    """
    make = partial(sampler.check, case, measurement.calls_per_sample, measurement.delay_s)
    is_checked = False

    def call(prepare: Callable[[], object] = noop) -> Any:
        nonlocal is_checked
        is_checked = True
        return make(prepare)

    reason = verification_error(case, call)
    if not is_checked:
        make()  # A rank with nothing to check: others wait for it at the barrier.
    return reason, is_checked


def verification_error(case: Case, call: Call) -> Reason:
    """Return why a case is wrong, by a call that it checks; "" if it is right."""
    try:
        case.verify(call)
    except InvalidResult as error:
        return str(error) or "a wrong result"
    return ""


def time_limit_text(num_cases: int, limits: MeasureConfig) -> str:
    """Return how many cases are timed and until when: "3 cases, at most 66 s, until 17:40:05"."""
    most_s = num_cases * (limits.most_seconds() + limits.max_warmup_seconds)
    end = datetime.now() + timedelta(seconds=most_s)
    cases = f"{num_cases} case{'s' * (num_cases != 1)}"
    return f"{cases}, at most {most_s:.3g} s, until {end:%H:%M:%S}"


def stays_slowed(case: Case, controller: ThrottleController) -> Reason:
    """Return why a case that must run at full speed cannot, or ""."""
    if not case.unslowed or controller.throttle.switchable:
        return ""
    return "a share of a GPU cannot be lifted within a job: compare with hardware.slowdown=1"


def case_record(each: CaseRun, cases: Sequence[Case], clock: Clock) -> CaseRecord:
    """Return a case as the record stores it so far; references are positions among all cases."""
    case, measurement = each.case, each.measurement
    described = CaseRecord(
        labels=dict(case.labels),
        status=each.status,
        reason=each.why.reason,
        rank=each.why.rank,
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
    return with_samples(described, measurement, clock)


def with_details(report: CaseRecord, each: CaseRun) -> CaseRecord:
    """Add what is known after a case's checks; all ranks call this together."""
    if not report.samples_s:
        return report
    return replace(report, details=dict(each.case.details()), unchecked=each.unchecked)


def with_samples(described: CaseRecord, measurement: Measurement, clock: Clock) -> CaseRecord:
    """Add samples and times, rounded to the clock's nanosecond.

    Starts are stored only if the host's clock gave them: its starts and durations can be added up.
    """
    has_starts = clock.name == HostClock.name
    samples = {item.name: getattr(measurement, item.name) for item in fields(CaseSamples)}
    samples |= {
        "warmup_s": nanoseconds(measurement.warmup_s),
        "samples_s": nanoseconds(measurement.samples_s),
        "start_offsets_s": nanoseconds(measurement.start_offsets_s) if has_starts else None,
        "regions_s": {name: nanoseconds(rows) for name, rows in measurement.regions_s.items()},
    }
    return replace(described, **samples, checks=measurement.num_checks)


def position_of(case: Case | None, cases: Sequence[Case]) -> int | None:
    return None if case is None else cases.index(case)


def nanoseconds(rows: list[list[float]]) -> list[list[float]]:
    return [[round(value, 9) for value in row] for row in rows]
