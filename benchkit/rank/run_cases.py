"""Verify, time and verify again the cases of one job; build their records."""

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
from benchkit.rank.cuda_graphs import capture, remove_regions
from benchkit.rank.devices import GpuWatch
from benchkit.rank.sampling_hooks import make_hooks
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
"""Phases of a rank in words."""


def ignore(note: str) -> None:
    """Discard a note."""


@dataclass
class Stopwatch:
    """Begin of each phase, on the host's monotonic clock, which the agent shares.

    `report_phase` receives the current phase in words; it is not called while samples are taken.
    """

    began_s: dict[str, float] = field(default_factory=dict)
    report_phase: Callable[[str], None] = ignore

    def enter(self, phase: str, amount: str = "") -> None:
        """Begin a phase; `amount` is what of, such as "12 cases"."""
        self.report_phase(f"{PHASE_TEXTS[phase]} {amount}".rstrip())
        self.began_s[phase] = time.perf_counter()


@dataclass
class RankRun:
    """The means by which a rank measures."""

    config: RunConfig
    clock: Clock
    group: ControlGroup
    controller: ThrottleController
    watch: GpuWatch
    stopwatch: Stopwatch = field(default_factory=Stopwatch)


@dataclass
class CaseRun:
    """The state of one case during the job.

    Attributes:
        number: position among the cases of the job, such as "3 of 12".
        status: status so far, equal on all ranks.
        unchecked: unchecked part of its timed calls; "" for none.
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
    """Verify, time and verify again; return the records of the cases.

    All ranks call this together. A case that any rank skips or finds wrong is not timed. If first
    calls are timed, cases are verified only afterwards, since verification would make their first
    calls. `store` receives the records so far from time to time.
    """
    config, controller = run.config, run.controller
    hooks = make_hooks(config, controller, run.group.world_size, run.watch.switch_case)
    all_cases = [CaseRun(case, f"{i} of {len(cases)}") for i, case in enumerate(cases, start=1)]
    run.stopwatch.enter("verify")
    mark_cases(run.group, all_cases, "unavailable", lambda case_run: case_run.case.unavailable)
    mark_cases(
        run.group,
        all_cases,
        "skipped",
        lambda case_run: case_run.case.skip or full_speed_refusal(case_run.case, controller),
    )
    if config.measure.mode != COLD:
        verify(run, all_cases)
    if config.measure.mode == GRAPH:
        mark_cases(
            run.group, all_cases, "unavailable", lambda case_run: capture(case_run.case, config)
        )
        verify(run, all_cases)  # the results of the replays

    timed = [case_run for case_run in all_cases if case_run.status == "ok"]
    run.stopwatch.enter("measure", time_limit_text(len(timed), config.measure))

    def reports() -> list[CaseRecord]:
        return [case_record(case_run, cases, run.clock) for case_run in all_cases]

    time_cases(run, timed, hooks, SamplesSoFar(timed, lambda: store(reports())))

    run.stopwatch.enter("verify_again")
    verify_timed(run, all_cases, Sampler(run.clock, run.group.barrier, hooks))
    return [
        add_details(report, case_run) for report, case_run in zip(reports(), all_cases, strict=True)
    ]


STORE_EVERY_S = 1.0
STORE_SHARE = 0.01
"""Largest share of rank 0's time that is spent on storing the samples so far."""


@dataclass
class SamplesSoFar:
    """Stores the measurements so far from time to time, between blocks."""

    timed: Sequence[CaseRun]
    store: Callable[[], object]
    due_s: float = field(default_factory=lambda: time.perf_counter() + STORE_EVERY_S)

    def __call__(self, measurements: Sequence[Measurement]) -> None:
        began_s = time.perf_counter()
        if began_s < self.due_s:
            return
        for case_run, measurement in zip(self.timed, measurements, strict=True):
            case_run.measurement = measurement
        self.store()
        ended_s = time.perf_counter()
        self.due_s = ended_s + max(STORE_EVERY_S, (ended_s - began_s) / STORE_SHARE)


def time_cases(
    run: RankRun, timed: Sequence[CaseRun], hooks: Hooks, after_block: SamplesSoFar
) -> None:
    """Time cases in interleaved blocks, and add the readings of the GPUs."""
    running = [case_run.case for case_run in timed]
    if run.config.measure.mode == GRAPH:
        running = [remove_regions(case) for case in running]

    def check(index: int, measurement: Measurement, sampler: Sampler) -> bool:
        def reason_of(case_run: CaseRun) -> Reason:
            return timed_verification_error(case_run.case, measurement, sampler)[0]

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
    for case_run, measurement, state in zip(timed, measurements, states, strict=True):
        measurement.disturbance |= state
        case_run.measurement = measurement
        if measurement.oom_reason:
            case_run.end("oom", RankReason(measurement.oom_reason, 0))
        elif not measurement.times().any():
            case_run.end("invalid", RankReason("every time is 0: the clock stands still", 0))


def mark_cases(
    group: ControlGroup,
    all_cases: Sequence[CaseRun],
    status: str,
    reason_of: Callable[[CaseRun], Reason],
) -> None:
    """Set `status` on each ok case for which any rank returns a reason.

    All ranks call this together. With one rank, a lack of memory makes the case `oom`. With several
    it raises, because the other ranks may be blocked in a collective.
    """
    ok_cases = [case_run for case_run in all_cases if case_run.status == "ok"]
    reasons = []
    for case_run in ok_cases:
        reason = ""
        try:
            reason = reason_of(case_run)
        except Exception as error:
            shortage = oom_reason(error)
            if group.world_size > 1 or not shortage:
                raise
            case_run.end("oom", RankReason(shortage, 0))
        if case_run.status == "oom":
            free_unused()  # only here, because the exception held the case's tensors
        reasons.append(reason)
    for case_run, why in zip(ok_cases, group.first_reason(reasons), strict=True):
        if why.reason:
            case_run.end(status, why)


def verify(run: RankRun, all_cases: Sequence[CaseRun]) -> None:
    """Verify the ok cases by an untimed call."""

    def reason_of(case_run: CaseRun) -> Reason:
        run.stopwatch.report_phase(f"verifying case {case_run.number}")
        return verification_error(case_run.case, case_run.case.call_once)

    mark_cases(run.group, all_cases, "invalid", reason_of)


def verify_timed(run: RankRun, all_cases: Sequence[CaseRun], sampler: Sampler) -> None:
    """Verify the ok cases by calls made as their samples were; set `unchecked`."""
    checked: set[str] = set()

    def reason_of(case_run: CaseRun) -> Reason:
        assert case_run.measurement  # a case that is ok was timed
        run.stopwatch.report_phase(f"verifying case {case_run.number}")
        reason, is_checked = timed_verification_error(case_run.case, case_run.measurement, sampler)
        checked.update([case_run.number] * is_checked)
        return reason

    mark_cases(run.group, all_cases, "invalid", reason_of)
    rows = run.group.all_gather([float(case_run.number in checked) for case_run in all_cases])
    for case_run, by_rank in zip(all_cases, zip(*rows, strict=True), strict=True):
        nothing_checked = "all: the check makes no timed call"
        case_run.unchecked = case_run.case.unchecked if any(by_rank) else nothing_checked


def timed_verification_error(
    case: Case, measurement: Measurement, sampler: Sampler
) -> tuple[Reason, bool]:
    """Check a call made as the case's samples are; return the reason, and whether it was checked.

    The reason is "" for a right result. All ranks call this together.
    """
    make_call = partial(sampler.check, case, measurement.calls_per_sample, measurement.delay_s)
    is_checked = False

    def call(prepare: Callable[[], object] = noop) -> Any:
        nonlocal is_checked
        is_checked = True
        return make_call(prepare)

    reason = verification_error(case, call)
    if not is_checked:
        make_call()  # This rank has nothing to check, but the others wait at the barrier.
    return reason, is_checked


def verification_error(case: Case, call: Call) -> Reason:
    """Return why the result of a call is wrong; "" if it is right."""
    try:
        case.verify(call)
    except InvalidResult as error:
        return str(error) or "a wrong result"
    return ""


def time_limit_text(num_cases: int, limits: MeasureConfig) -> str:
    """Return how many cases are timed and until when: "3 cases, at most 66 s, until 17:40:05"."""
    most_s = num_cases * (limits.most_seconds() + limits.max_warmup_seconds)
    end_time = datetime.now() + timedelta(seconds=most_s)
    cases = f"{num_cases} case{'s' * (num_cases != 1)}"
    return f"{cases}, at most {most_s:.3g} s, until {end_time:%H:%M:%S}"


def full_speed_refusal(case: Case, controller: ThrottleController) -> Reason:
    """Return the reason why an unslowed case cannot run at full speed, or ""."""
    if not case.unslowed or controller.throttle.switchable:
        return ""
    return "a share of a GPU cannot be lifted within a job: compare with hardware.slowdown=1"


def case_record(case_run: CaseRun, cases: Sequence[Case], clock: Clock) -> CaseRecord:
    """Return the record of a case so far; references are positions among all cases."""
    case, measurement = case_run.case, case_run.measurement
    record = CaseRecord(
        labels=dict(case.labels),
        status=case_run.status,
        reason=case_run.why.reason,
        rank=case_run.why.rank,
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
        return record
    return add_samples(record, measurement, clock)


def add_details(report: CaseRecord, case_run: CaseRun) -> CaseRecord:
    """Add the details and `unchecked` after a case's checks; all ranks call this together."""
    if not report.samples_s:
        return report
    return replace(report, details=dict(case_run.case.details()), unchecked=case_run.unchecked)


def add_samples(record: CaseRecord, measurement: Measurement, clock: Clock) -> CaseRecord:
    """Add samples and times, rounded to the clock's nanosecond.

    Starts are stored only if they are of the host's clock, as are durations, so that they add up.
    """
    has_starts = clock.name == HostClock.name
    samples = {item.name: getattr(measurement, item.name) for item in fields(CaseSamples)}
    samples |= {
        "warmup_s": round_to_nanoseconds(measurement.warmup_s),
        "samples_s": round_to_nanoseconds(measurement.samples_s),
        "start_offsets_s": round_to_nanoseconds(measurement.start_offsets_s)
        if has_starts
        else None,
        "regions_s": {
            name: round_to_nanoseconds(rows) for name, rows in measurement.regions_s.items()
        },
    }
    return replace(record, **samples, checks=measurement.num_checks)


def position_of(case: Case | None, cases: Sequence[Case]) -> int | None:
    return None if case is None else cases.index(case)


def round_to_nanoseconds(rows: list[list[float]]) -> list[list[float]]:
    return [[round(value, 9) for value in row] for row in rows]
