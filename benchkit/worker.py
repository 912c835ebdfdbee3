"""What one rank does with one point: join, build the cases, verify, measure, verify again, report."""

import time
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
import torch.distributed as dist

from benchkit import backends
from benchkit.case import Case, Rank
from benchkit.clocks import Clock, CudaClock, HostClock
from benchkit.config import RunConfig
from benchkit.environment import available_bytes
from benchkit.errors import InvalidResult
from benchkit.layout import Place
from benchkit.measure import Measurement, measure
from benchkit.registry import load_suites
from launch.clock_offsets import Offset


@dataclass(frozen=True)
class Assignment:
    """One rank's part in one point, sent to its process."""

    config: RunConfig
    place: Place
    world_size: int
    threads: int
    rendezvous: backends.Rendezvous
    offset: Offset


@dataclass
class Stopwatch:
    """Names when each phase began, on the host's monotonic clock, which the agent shares."""

    began_s: dict[str, float] = field(default_factory=dict)

    def enter(self, phase: str) -> None:
        self.began_s[phase] = time.perf_counter()


def run_rank(assignment: Assignment) -> dict[str, Any] | None:
    """The body of a rank; rank 0 returns the cases as the record stores them, the others None."""
    stopwatch = Stopwatch()
    stopwatch.enter("init")
    torch.set_num_threads(assignment.threads)
    config = assignment.config
    device = backends.join(config, assignment.place, assignment.world_size, assignment.rendezvous)
    group = Group(backends.control_group(), assignment.world_size)
    rank = Rank(
        index=assignment.place.rank,
        world_size=assignment.world_size,
        sharers=assignment.place.local_world_size if device.type == "cpu" else config.hardware.ranks_per_device,
        device=device,
        seed=config.seed,
        available_bytes=lambda: available_bytes(device),
    )
    stopwatch.enter("build")
    cases = load_suites()[config.suite].build(config, rank)
    require_sound(cases, config)
    clock = make_clock(device, assignment.offset)
    reports = run_cases(cases, config, clock, group, stopwatch)
    stopwatch.enter("exit")
    group.barrier()  # then the process ends: destroying a gloo group takes another 20 ms, and nothing outlives it
    if assignment.place.rank:
        return None
    return {"cases": reports, "clock": clock.name, "began_s": stopwatch.began_s}


@dataclass(frozen=True)
class Finding:
    """Why a case is not ok, and which rank said so first."""

    reason: str = ""
    rank: int | None = None


@dataclass(frozen=True)
class Group:
    """The ranks' control channel: CPU tensors over gloo, whatever backend is measured."""

    handle: dist.ProcessGroup | None
    world_size: int

    def barrier(self) -> None:
        dist.barrier(group=self.handle)

    def exchange(self, values: list[float]) -> list[list[float]]:
        """Every rank's list of numbers, in order of ranks."""
        mine = torch.tensor(values, dtype=torch.float64)
        gathered = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(gathered, mine, group=self.handle)
        return [row.tolist() for row in gathered]

    def first_reason(self, reasons: list[str]) -> list[Finding]:
        """Per case, the first rank's reason that is not empty; the same on all ranks."""
        gathered: list[Any] = [None] * self.world_size
        dist.all_gather_object(gathered, reasons, group=self.handle)
        return [
            next((Finding(reason, rank) for rank, reason in enumerate(column) if reason), Finding())
            for column in zip(*gathered, strict=True)
        ]


def make_clock(device: torch.device, offset: Offset) -> Clock:
    """Events for a GPU, aligned by a tiny collective of the measured backend; the host's clock for a CPU."""
    if device.type == "cpu":
        return HostClock(offset.at)
    token = torch.zeros(1, device=device)
    return CudaClock(torch.cuda, align=lambda: dist.all_reduce(token))


def require_sound(cases: list[Case], config: RunConfig) -> None:
    """Raises ValueError where a suite returned no case, or a label that is the name of a key or of a column."""
    if not cases:
        raise ValueError(f"suite {config.suite} returned no case")
    taken = {item.name for item in fields(config)} | {"status", "device"}
    for case in cases:
        if clash := taken & set(case.labels):
            raise ValueError(f"suite {config.suite}: a label cannot be named {min(clash)}, which is a key or a column")


def run_cases(
    cases: list[Case], config: RunConfig, clock: Clock, group: Group, stopwatch: Stopwatch
) -> list[dict[str, Any]]:
    """Verifies, times and verifies again; a case that any rank skips or finds wrong is not timed."""
    stopwatch.enter("verify")
    findings = group.first_reason([case.skip for case in cases])
    statuses = ["skipped" if finding.reason else "ok" for finding in findings]
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
    )
    stopwatch.enter("verify_again")
    note_invalid(cases, statuses, findings, group)
    measured: dict[int, Measurement] = dict(zip(timed, measurements, strict=True))
    return [
        case_report(case, status, finding, measured.get(index), clock)
        for index, (case, status, finding) in enumerate(zip(cases, statuses, findings, strict=True))
    ]


def passing(statuses: list[str]) -> list[int]:
    return [index for index, status in enumerate(statuses) if status == "ok"]


def note_invalid(cases: list[Case], statuses: list[str], findings: list[Finding], group: Group) -> None:
    """Verifies the cases that are ok so far on all ranks together, and marks those that any rank finds wrong."""
    indices = passing(statuses)
    reasons = []
    for index in indices:
        try:
            cases[index].verify()
            reasons.append("")
        except InvalidResult as error:
            reasons.append(str(error) or "a wrong result")
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
    }
    if measurement is None:
        return report
    rounded: dict[str, Any] = {
        name: [[round(value, 9) for value in row] for row in getattr(measurement, name)]
        for name in ("warmup_s", "samples_s", "start_offsets_s")
    }
    if clock.name != HostClock.name:
        rounded["start_offsets_s"] = None
    result = report | asdict(measurement) | rounded
    return {name: value for name, value in result.items() if name not in ("block_medians_s", "blocks_per_exchange")}
