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
from benchkit.errors import InvalidResult, oom_reason
from benchkit.measure.clocks import Clock, HostClock
from benchkit.measure.sampler import Sampler
from benchkit.measure.timer import Measurement, measure
from benchkit.rank.around_samples import ThrottleController, as_timed, capture, hooks_of
from benchkit.rank.backends import ControlGroup, Finding
from benchkit.rank.devices import GpuWatch
from benchkit.record.record import CaseRecord, ComponentPositions

DOING = {
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
    """Notes when each phase began, on the host's monotonic clock, which the agent shares.

    Attributes:
        began_s: seconds on that clock, by phase.
        tell: takes what the rank does now, in words; not called while samples are taken.
    """

    began_s: dict[str, float] = field(default_factory=dict)
    tell: Callable[[str], None] = ignore

    def enter(self, phase: str, what: str = "") -> None:
        """Begin a phase; `what` says with how much, such as "12 cases"."""
        self.tell(f"{DOING[phase]} {what}".rstrip())
        self.began_s[phase] = time.perf_counter()


@dataclass
class Verdicts:
    """The status of each case of a job so far, alike on all ranks, and the first rank's reason.

    Attributes:
        cases: of the job.
        group: the ranks.
        tell: takes what is done now, in words.
        statuses: by case.
        findings: by case; why its status is not ok.
    """

    cases: Sequence[Case]
    group: ControlGroup
    tell: Callable[[str], None] = ignore
    statuses: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.statuses = ["ok"] * len(self.cases)
        self.findings = [Finding()] * len(self.cases)

    def passing(self) -> list[int]:
        """Return the positions of the cases that are ok so far."""
        return [index for index, status in enumerate(self.statuses) if status == "ok"]

    def of(self, index: int) -> tuple[str, Finding]:
        """Return the status of a case, and why it is not ok."""
        return self.statuses[index], self.findings[index]

    def note(self, status: str, reason_of: Callable[[Case], str]) -> None:
        """Give a status to the cases for which any rank has a reason, of those that are ok.

        All ranks call this together. A case that finds too little memory on the only rank is out
        of memory; of several ranks, others may wait for this one, so there it ends the job.
        """
        indices = self.passing()
        shortages: dict[int, str] = {}
        reasons = []
        for index in indices:
            try:
                reasons.append(reason_of(self.cases[index]))
                continue
            except Exception as error:
                shortages[index] = oom_reason(error)
                if self.group.world_size > 1 or not shortages[index]:
                    raise
            free_unused()  # now, because the exception held the case's tensors
            reasons.append("")
        for index, finding in zip(indices, self.group.first_reason(reasons), strict=True):
            if finding.reason:
                self.statuses[index], self.findings[index] = status, finding
        for index, shortage in shortages.items():
            self.note_oom(index, shortage)

    def note_oom(self, index: int, reason: str) -> None:
        """Mark a case that finds too little memory on the only rank."""
        self.statuses[index], self.findings[index] = "oom", Finding(reason, 0)

    def note_invalid(self) -> None:
        """Verify the cases that are ok, on all ranks together, and mark those that are wrong."""
        self.note("invalid", lambda case: self.reason_of(case, case.call_once))

    def note_timed(self, call_of: Callable[[int], Call]) -> list[str]:
        """Verify timed calls of the cases that are ok, and mark those that are wrong.

        Args:
            call_of: returns what makes a call of the case at a position as its samples were taken.

        Returns:
            Of each case what its timed calls computed without a check; "" if nothing.
        """
        used = [0.0] * len(self.cases)

        def reason_of(case: Case) -> str:
            index = self.cases.index(case)
            make = call_of(index)

            def call(prepare: Callable[[], object] = noop) -> Any:
                used[index] = 1.0
                return make(prepare)

            reason = self.reason_of(case, call)
            if not used[index]:
                make()  # A rank with nothing to check: others wait for it at the barrier.
            return reason

        self.note("invalid", reason_of)
        used_by_any = map(max, zip(*self.group.exchange(used), strict=True))
        return [
            case.unchecked if checked else "all: the check makes no timed call"
            for case, checked in zip(self.cases, used_by_any, strict=True)
        ]

    def reason_of(self, case: Case, call: Call) -> str:
        """Return why a case is wrong, by a call that it checks; "" if it is right."""
        number = 1 + self.cases.index(case)
        self.tell(f"verifying case {number} of {len(self.cases)}")
        try:
            case.verify(call)
        except InvalidResult as error:
            return str(error) or "a wrong result"
        return ""


def run_cases(
    cases: list[Case],
    config: RunConfig,
    clock: Clock,
    group: ControlGroup,
    stopwatch: Stopwatch,
    controller: ThrottleController,
    watch: GpuWatch,
) -> list[CaseRecord]:
    """Verify, times and verify timed calls; return the cases as the record stores them.

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
    """Return what is known of the cases before they are timed."""
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
    """Say how many cases are timed and for how long at most.

    An example is "3 cases, at most 66 s, until 17:40:05": the note does not change meanwhile.
    """
    most_s = num_cases * (limits.max_seconds + limits.max_warmup_seconds)
    end = datetime.now() + timedelta(seconds=most_s)
    cases = f"{num_cases} case{'s' * (num_cases != 1)}"
    return f"{cases}, at most {most_s:.3g} s, until {end:%H:%M:%S}"


def stays_slowed(case: Case, controller: ThrottleController) -> str:
    """Return why a case that is to run at full speed cannot; "" if it can, or need not."""
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
    """Return one case as the record stores it.

    Args:
        cases: all cases of the job; references are stored as positions among them.
        finding: why it is not ok, and the rank that says so.
        measurement: its samples; None, or without them, if it was not timed.
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
    """Return a case that was timed, with times rounded to the clock's nanosecond.

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
    """Round seconds to the clock's nanosecond."""
    return [[round(value, 9) for value in row] for row in rows]


def require_sound(cases: list[Case], config: RunConfig) -> None:
    """Check the cases that a suite returned.

    Raises:
        ValueError: there is no case, a label has the name of a column or of a key that is one, or
            a reference between cases leads nowhere. A key that holds a list is no column, and the
            column of `ranks` has another name, because suites have labels of that name.
    """
    if not cases:
        raise ValueError(f"suite {config.suite} returned no case")
    keys = {
        item.name
        for item in fields(config)
        if not isinstance(getattr(config, item.name), list | dict)
    }
    taken = (keys | {"status", "device"}) - {"ranks"}
    for case in cases:
        if clash := taken & set(case.labels):
            raise ValueError(
                f"suite {config.suite}: a label cannot be named {min(clash)}, "
                "which is a key or a column"
            )
    try:
        require_references(cases)
    except ValueError as error:
        raise ValueError(f"suite {config.suite}: {error}") from None


def require_references(cases: list[Case]) -> None:
    """Check that each case is in the list once and refers only to cases of the list.

    Raises:
        ValueError: a case is in the list twice, or refers to a case that is not in the list.
    """
    for case in cases:
        if cases.count(case) > 1:
            raise ValueError(f"case {dict(case.labels)} is returned twice; allowed is once")
        references: dict[str, Case | None] = {"baseline": case.baseline, **vars(case.components)}
        for role, other in references.items():
            if other is not None and other not in cases:
                raise ValueError(
                    f"case {dict(case.labels)}: its {role} {dict(other.labels)} is not returned; "
                    "allowed are returned cases"
                )


def of_several_cases(config: RunConfig, reports: Sequence[CaseRecord]) -> list[str]:
    """Return a warning where several cases shared the processes whose first calls were timed."""
    number = sum(bool(report.samples_s) for report in reports)
    if config.measure.mode != COLD or number < 2:
        return []
    return [
        f"{number} cases took turns in the same processes, in random order: only one of them was "
        "first, the others found libraries and kernels loaded; for one case per point: "
        f"{' '.join(sweeps_of(config)) or 'choose one by the keys of the suite'}"
    ]


def sweeps_of(config: RunConfig) -> list[str]:
    """Return the overrides that make points of the keys whose lists select cases."""
    chosen = {each.name: getattr(config, each.name) for each in fields(config)}
    return [
        f"{name}={','.join(f'[{value}]' for value in values)}"
        for name, values in chosen.items()
        if isinstance(values, list) and len(values) > 1
    ]
