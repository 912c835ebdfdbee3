"""Forecast the seconds of points before they run, and a bound of these.

A point starts ranks, builds and checks its cases, and times them; each case that is repeated
isolated costs one more start. `PointModel` models the seconds of a call; `Pace` corrects each part
by the nearest earlier record of a machine like this one. Without such a record the forecast is a
guess. Bounds assume that all is slower by the pace's
`doubt`, and that measure.max_seconds and timeout_s end what takes longer.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

import msgspec

from benchkit import environment
from benchkit.api.case import shortage
from benchkit.api.keys import Planned, RunConfig, as_dict, check_ranges
from benchkit.api.memory import host_available_bytes
from benchkit.api.registry import load_suites
from benchkit.errors import ConfigError
from benchkit.point.placement import Placement, threads_of
from benchkit.point.point import ENDING_S, Point
from benchkit.point.ranks import FRESH_EVERY, is_reusable
from benchkit.rank.prober import LONGEST_TURN, SLOWED_TURN, TRIES, TURNS
from benchkit.record import files
from benchkit.record.naming import format_duration
from benchkit.record.record import Amount, Count, NumRanks, PlainConfig, Seconds, SignedNumber
from benchkit.statistics import FEWEST_TURNS
from benchkit.sweep import manifest
from launch.host import available_cores

FLOP_PER_S = {"cpu": 8e10, "cuda": 1e14}  # of a thread of a CPU, and of a GPU
SENT_PER_S, COPIED_PER_S = {"cpu": 1e9, "cuda": 1e11}, {"cpu": 1e10, "cuda": 1e12}  # bytes
STEP_S = {"cpu": 5e-4, "cuda": 2e-5}  # of the shortest message or kernel, with a barrier
BLOCK_S = 5e-3  # around a block of samples
START_S = {"cpu": 0.2, "cuda": 5.0}  # to start the ranks of a point and to end them
CASE_S = 0.05  # to build a case
CHECKS = 5.0  # the checks of a case take as long as so many calls
PROBES = 10  # turns for a call of a cost model
TURN = 0.014  # without a slowed rank, the length of a turn in measure.probe_seconds
FILLED = 1.5  # length of a sample over its target; calls double until it is reached
STALL_S = 3.0  # further start-up of a point, at most: a sweep's first one starts the fork server
SWEEP_S = 5.0  # from the command to its first point, and from the last one to the table


@dataclass(frozen=True)
class PointModel:
    """Cost model of a point, or of the point of a record.

    `without` has the labels of cases that lack memory.
    """

    config: RunConfig
    world_size: int
    threads: int
    cores_per_rank: float
    slowdown: tuple[float, ...]
    without: frozenset[str] = frozenset()

    @cached_property
    def planned(self) -> list[Planned]:
        cases = self.config.planned(self.world_size)
        return [case for case in cases if case.labels not in self.without] or [Planned()]

    @cached_property
    def calls_s(self) -> list[float]:
        """Seconds of one call of each case."""
        device = self.config.hardware.device
        threads = min(self.threads, self.cores_per_rank) if device == "cpu" else 1
        rate = FLOP_PER_S[device] * max(threads, 0.1)
        slowest = max(self.slowdown)
        average = len(self.slowdown) / sum(1 / factor for factor in self.slowdown)
        return [
            case.steps * STEP_S[device]
            + case.flops / rate * (average if case.by_speed else slowest)
            + case.sent_bytes / SENT_PER_S[device]
            + case.copied_bytes / COPIED_PER_S[device]
            for case in self.planned
        ]

    @cached_property
    def key(self) -> str:
        return manifest.key_of(as_dict(self.config))

    @cached_property
    def kind(self) -> tuple[str, ...]:
        """What a record must share with this point to be used."""
        config = self.config
        return config.suite, config.backend.name, config.hardware.device

    @cached_property
    def traits(self) -> tuple[object, ...]:
        """What a record should share with this point, the weightiest first."""
        config = self.config
        return self.key, config.title(), self.world_size, self.slowdown, config.measure

    @cached_property
    def log2_calls_s(self) -> float:
        return math.log2(sum(self.calls_s))

    @property
    def start_s(self) -> float:
        """Seconds until cases are built, including probes for cost models and slowdowns."""
        worst, probes = max(self.slowdown), PROBES * self.config.probes
        turn = TURN
        if worst > 1:
            turn = (1 + worst) * min(SLOWED_TURN, LONGEST_TURN / worst)
            probes += TRIES * TURNS
        probes_s = probes * turn * self.config.measure.probe_seconds
        return START_S[self.config.hardware.device] + probes_s

    def sample_s(self, case: Planned, call_s: float, slower: float) -> float:
        calls = self.config.measure.sample_of(case.calls)
        return max(call_s * max(1, calls.number), FILLED * calls.fill_s * slower)

    def check_s(self, case: Planned, call_s: float, slower: float) -> float:
        """Return the seconds of building and checking a case that takes `call_s` per call."""
        return CASE_S + CHECKS * call_s + self.sample_s(case, call_s, slower)

    def checks_s(self, calls_s: Sequence[float]) -> float:
        pairs = zip(self.planned, calls_s, strict=True)
        return sum(self.check_s(*pair, slower=1.0) for pair in pairs)

    def timing_s(self, calls_s: Sequence[float]) -> float:
        """Return the seconds of warm-up and samples of all cases."""
        pairs = zip(self.planned, calls_s, strict=True)
        timed = [pair for pair in pairs if pair[1] < pair[0].below_s]
        return sum(self.case_s(*pair, len(timed) == 1, slower=1.0) for pair in timed)

    def case_s(self, case: Planned, call_s: float, is_single: bool, slower: float) -> float:
        """Return the seconds of first call, warm-up and samples of a case.

        `slower` is a factor by which calls may exceed the model: with it, the result is a bound.
        """
        measure = self.config.measure
        sample_s = self.sample_s(case, call_s, slower)
        block_s = max(sample_s, measure.block_seconds * slower)
        fewest_s = min(FEWEST_TURNS * sample_s, measure.most_seconds())
        limit_s = max(measure.max_seconds, fewest_s) + block_s
        samples_s = min(measure.max_iterations * sample_s, limit_s)
        fewest = 1 if is_single else min(measure.min_blocks, measure.max_iterations)
        blocks = max(fewest, samples_s / block_s)
        warmup_s = measure.warmup_iterations * sample_s
        warmup_s += measure.max_warmup_seconds * (1 if slower > 1 else 0.2)
        return slower * case.first_s + warmup_s + samples_s + blocks * BLOCK_S

    @property
    def num_isolated(self) -> int:
        """Number of cases that are repeated isolated: the baseline and the best of each group."""
        when = self.config.measure.alone
        groups = {case.group for case in self.planned if case.group or when == "always"}
        return 0 if when == "never" or len(self.planned) < 2 else 2 * len(groups)


def model_point(point: Point, plan: Placement, free_bytes: int | None) -> PointModel:
    """Return the cost model of a point; `free_bytes` is None if it runs elsewhere."""
    config, world_size = point.config, plan.world_size
    without = frozenset(shortages(config, world_size, free_bytes))
    cores, slowdown = plan.cores_per_rank, plan.slowdown or (1.0,)
    return PointModel(config, world_size, plan.threads, cores, slowdown, without)


def shortages(config: RunConfig, world_size: int, free_bytes: int | None) -> dict[str, str]:
    """Return why cases lack memory, by labels; "" stands for all cases."""
    if free_bytes is None or config.hardware.device != "cpu":
        return {}
    cases = [case for case in config.planned(world_size) if case.needed_bytes is not None]
    cases = cases or [Planned(needed_bytes=needed_bytes_of(config, world_size))]
    reasons = {
        case.labels: shortage(case.needed_bytes or 0.0, world_size, free_bytes) for case in cases
    }
    lacking = {labels: why for labels, why in reasons.items() if why}
    return (
        {"": next(iter(lacking.values()))} if lacking and len(lacking) == len(reasons) else lacking
    )


def needed_bytes_of(config: RunConfig, world_size: int) -> float | None:
    """Return the bytes that each rank needs on its device; None if unknown."""
    on_device = config.needed_bytes(world_size)
    if on_device is None or config.hardware.device != "cpu":
        return on_device
    return on_device + config.host_bytes(world_size)


class TimedCase(msgspec.Struct):
    """The part of a case's record with the time of its calls; samples are not read."""

    blocks: list[Count] = []
    calls_per_sample: Count = 1
    elapsed_s: Seconds = 0.0

    @property
    def call_s(self) -> float:
        return self.elapsed_s / (sum(self.blocks) * self.calls_per_sample)


class RecordedSlowdown(msgspec.Struct):
    asked: list[SignedNumber] = []


class Machine(msgspec.Struct, frozen=True):
    """Hosts with the same values are alike."""

    cpu: str | None = None
    available_cores: Count | None = None


class TimedRecord(msgspec.Struct):
    """The part of a record with the times of its point."""

    suite: str
    title: str
    status: str
    config: PlainConfig
    world_size: NumRanks
    threads_per_rank: Count
    cores_per_rank: Amount
    slowdown: RecordedSlowdown
    environment: Machine
    phases_s: dict[str, Seconds]
    cases: list[TimedCase]

    def model(self) -> PointModel | None:
        """Return the record's point as the model knows it; None if its keys are not today's."""
        suite = load_suites().get(str(self.config.get("suite")))
        if suite is None:
            return None
        slowdown = tuple(self.slowdown.asked) or (1.0,)
        try:
            config = msgspec.convert(self.config, suite.config)
            check_ranges(config)
            model = PointModel(
                config, self.world_size, self.threads_per_rank, self.cores_per_rank, slowdown
            )
            return model if sum(model.calls_s) > 0 else None
        except (ConfigError, ValueError, TypeError, ArithmeticError):
            return None


GUESS, NEAR, SAME = "a guess", "by a like point", "as before"


@dataclass(frozen=True)
class Pace:
    """Measured over modelled seconds of each part of a point.

    Attributes:
        doubt: further factor, for bounds.
        basis: GUESS, NEAR or SAME.
    """

    start: float = 1.0
    call: float = 1.0
    checks: float = 1.0
    timing: float = 1.0
    isolated: float = 1.0
    doubt: float = 10.0
    basis: str = GUESS


def pace_of(timed: TimedRecord, model: PointModel, wanted: PointModel) -> Pace:
    """Return the pace of a record, whose point is `model`, for another point, `wanted`."""
    spent = timed.phases_s
    ranks_s = START_S[model.config.hardware.device]  # a sweep's first start takes longer
    start_s = ranks_s + sum(spent.get(name, 0.0) for name in ("init", "calibrate", "build"))
    calls_s = [case.call_s for case in timed.cases if sum(case.blocks) and case.elapsed_s]
    call = fmean(calls_s) / fmean(model.calls_s) if calls_s else 1.0
    paced_s = [call * call_s for call_s in model.calls_s]
    checks_s = spent.get("verify", 0.0) + spent.get("verify_again", 0.0)
    timing = spent["measure"] / model.timing_s(paced_s)
    is_same = model.key == wanted.key
    is_timed_alike = (model.config.measure, model.config.title()) == (
        wanted.config.measure,
        wanted.config.title(),
    )
    pace = Pace(
        start=start_s / model.start_s,
        call=call,
        checks=checks_s / model.checks_s(paced_s),
        timing=timing if is_timed_alike else 1.0,
        doubt=5.0 if is_same else 10.0,
        basis=SAME if is_same else NEAR,
    )
    modelled_s = isolated_s(model, replace(pace, timing=timing))
    if modelled_s and "alone" in spent:
        return replace(pace, isolated=spent["alone"] / modelled_s)
    return pace


def run_s(model: PointModel, pace: Pace) -> tuple[float, float]:
    """Return the seconds of one run of the ranks: of its start, and of its cases."""
    calls_s = [pace.call * call_s for call_s in model.calls_s]
    cases_s = pace.checks * model.checks_s(calls_s) + pace.timing * model.timing_s(calls_s)
    return pace.start * model.start_s, cases_s


def isolated_s(model: PointModel, pace: Pace) -> float:
    start_s, cases_s = run_s(model, pace)
    return pace.isolated * model.num_isolated * (start_s + cases_s / len(model.planned))


def most_s(model: PointModel, pace: Pace) -> tuple[float, float]:
    """Return bounds of the seconds of a run of the ranks that no timeout ends.

    The first is that of all cases, the second that of one isolated case.
    """
    if not model.config.planned(model.world_size):
        return math.inf, math.inf
    cases_s = []
    for case, call_s in zip(model.planned, model.calls_s, strict=True):
        slow_s = pace.doubt * pace.call * call_s
        cases_s.append(
            max(1.0, pace.checks) * model.check_s(case, slow_s, pace.doubt)
            + 1.5 * max(1.0, pace.timing) * model.case_s(case, slow_s, False, pace.doubt)
        )
    start_s = STALL_S + pace.doubt * pace.start * model.start_s
    return start_s + sum(cases_s), start_s + max(cases_s)


@dataclass(frozen=True)
class Expected:
    """How long a point takes, in seconds, without waiting for other runs on its hosts.

    Attributes:
        most_s: a bound.
        ranks_s: seconds of the ranks that time all cases, to which timeout_s applies.
        ranks_most_s: a bound of ranks_s without a timeout.
        basis: GUESS, NEAR or SAME.
    """

    seconds: float
    most_s: float
    ranks_s: float
    ranks_most_s: float
    basis: str


def expect_time(model: PointModel, pace: Pace) -> Expected:
    ends_s = model.config.timeout_s + ENDING_S
    limit_s = min(model.config.most_seconds() or math.inf, ends_s)
    together_s, (together_most_s, isolated_most_s) = sum(run_s(model, pace)), most_s(model, pace)
    is_reused = is_reusable(model.config)
    isolated_share = 1 / FRESH_EVERY if is_reused and model.config.measure.alone == "auto" else 1.0
    runs_s = min(together_s, limit_s) + isolated_share * isolated_s(model, pace)
    num_together = 1 + is_reused  # a point in reused ranks may be checked in fresh ones
    runs_most_s = num_together * min(together_most_s, ends_s)
    runs_most_s += model.num_isolated * min(isolated_most_s, ends_s)
    return Expected(
        min(runs_s, runs_most_s),
        runs_most_s,
        min(together_s, model.config.most_seconds() or math.inf),
        together_most_s,
        pace.basis,
    )


@dataclass(frozen=True)
class Total:
    """The forecast of many points: their statuses, and the seconds of all together."""

    statuses: list[str]
    seconds: Amount
    most_s: Amount

    def __str__(self) -> str:
        return f"about {format_duration(self.seconds)}, at most {format_duration(self.most_s)}"

    def __add__(self, other: "Total") -> "Total":
        statuses = [*self.statuses, *other.statuses]
        return Total(statuses, self.seconds + other.seconds, self.most_s + other.most_s)

    def write(self, path: Path) -> None:
        files.write_atomically(path, msgspec.json.encode(self), durable=False)


@dataclass
class Expectation:
    """Forecasts by earlier records; without any, by the model."""

    records: list[tuple[TimedRecord, PointModel]] = field(default_factory=list)

    def expect(self, model: PointModel) -> Expected:
        alike = [pair for pair in self.records if pair[1].kind == model.kind]
        if not alike:
            return expect_time(model, Pace())
        timed, nearest = min(alike, key=lambda pair: distance(model, pair[1]))
        return expect_time(model, pace_of(timed, nearest, model))


def distance(model: PointModel, other: PointModel) -> tuple[bool | float, ...]:
    """Return how two models of a kind differ, the weightiest trait first."""
    pairs = zip(model.traits, other.traits, strict=True)
    return (*(own != its for own, its in pairs), abs(model.log2_calls_s - other.log2_calls_s))


MOST_SWEEPS, MOST_RECORDS = 50, 300
"""Limits of what is read of earlier sweeps, newest first."""


def read_history(outputs: Path, machine: Machine | None) -> Expectation:
    """Read the records below a folder of a machine like `machine`, or of any if None."""
    records = (read_timed(path) for path in newest_records(outputs))
    pairs = []
    for timed in itertools.islice(filter(None, records), MOST_RECORDS):
        is_here = machine is None or timed.environment == machine
        if is_here and timed.status == "ok" and "measure" in timed.phases_s:
            model = timed.model()
            if model:
                pairs.append((timed, model))
    return Expectation(pairs)


def newest_records(outputs: Path) -> Iterator[Path]:
    for folder in itertools.islice(newest_sweeps(outputs), MOST_SWEEPS):
        try:
            entries = manifest.read(folder).points
        except ConfigError:
            continue
        for entry in entries:
            yield folder / entry.folder / files.FILE_NAME


def newest_sweeps(outputs: Path) -> list[Path]:
    """Return the folders of earlier sweeps, also of those of studies, newest first."""
    if (outputs / manifest.STUDY).exists():  # this sweep is a step of one
        outputs = outputs.parent
    folders = list_folders(outputs)
    folders += [
        step
        for study in folders
        if (study / manifest.STUDY).exists()
        for step in list_folders(study)
    ]
    sweeps = [folder for folder in folders if (folder / manifest.FILE_NAME).is_file()]
    return sorted(sweeps, key=lambda path: path.stat().st_mtime, reverse=True)


def list_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]


def read_timed(path: Path) -> TimedRecord | None:
    try:
        return files.read_json(path, TimedRecord)
    except (OSError, ValueError):
        return None


def this_machine() -> Machine:
    here = environment.static_environment()
    return Machine(here.cpu, here.available_cores)


def forecast_points(points: Sequence[Point], outputs: Path, runs_here: bool) -> list[float]:
    """Return the expected seconds of each point."""
    history = read_history(outputs, this_machine() if runs_here else None)
    free_bytes = host_available_bytes() if runs_here else None
    expected_s = []
    for point in points:
        plan = point.provisional_placement()
        cores = available_cores() * point.num_agents / plan.world_size
        plan = replace(plan, threads=threads_of(point.config, cores), cores_per_rank=cores)
        model = model_point(point, plan, free_bytes)
        expected_s.append(history.expect(model).seconds)
    return expected_s
