"""`python -m benchkit selftest`: how much identical runs differ here, and the noise floor.

The same amount of work is timed over and over (FWQ of the ASC Sequoia benchmarks): what takes
longer than undisturbed work was taken away by other processes, interrupts, or the hypervisor.
"""

import argparse
import datetime
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchkit import child
from benchkit.errors import ConfigError
from benchkit.measure.disturbance import COUNTERS, read_counters
from benchkit.record import files
from benchkit.record.naming import percent, plus_minus, ratio_interval
from benchkit.record.record import CaseRecord, Record
from benchkit.selftest.floor import (
    FEWEST_RUNS,
    Fingerprint,
    SizeFloor,
    fingerprint,
    machine_floor,
    read,
    state_folder,
    store,
)
from benchkit.statistics import BACK_TO_BACK, LATENCY
from benchkit.statistics.intervals import Array, find_modes
from benchkit.statistics.power import difference_of_runs, standard_deviation
from benchkit.statistics.rank_tests import SignedRank, log_ratios
from launch.agents.host_lock import HostLock, HostTaken, NoLock
from launch.host import affinity_cores
from launch.launcher_env import LaunchError, allocation_remark, require_launcher

MATRIX = 512
ALL_REDUCE = ("+suite=allreduce", "data_size=1KiB,1MiB")
MATRIX_PRODUCT = ("+suite=matmul_lut", f"sizes=[{MATRIX}]", "hardware.slowdown=1")


class SelftestFailed(Exception): ...


@dataclass(frozen=True)
class SelftestOptions:
    """Options of the selftest; `seconds` is the time of all parts together on an idle machine."""

    backend: str
    ranks: int
    seconds: float
    folder: Path

    @property
    def num_runs(self) -> int:
        """Fresh runs of each size: an even number, because they are compared in pairs."""
        return max(FEWEST_RUNS, 2 * int(self.seconds / 10))

    def overrides(self) -> list[str]:
        device = "cuda" if self.backend == "nccl" else "cpu"
        return [
            f"hardware={device}",
            f"backend={self.backend}",
            f"world_size={self.ranks}",
            "ranks=fresh",  # by default GPU ranks are reused: their runs are not independent
            "measure=quick",
            "measure.max_iterations=2000",
            f"measure.max_seconds={self.seconds / 400:.6f}",
            "measure.block_seconds=0.02",
        ]


@dataclass(frozen=True)
class SizeRuns:
    """Identical runs of one size, in order of time.

    Attributes:
        medians_s: median time of a call of each run; NaN where a run lacks it.
        slow_shares: of each run with two modes, the share of the slower one.
    """

    what: str
    medians_s: list[float] = field(default_factory=list)
    slow_shares: list[float] = field(default_factory=list)

    def floor(self) -> SizeFloor | None:
        """Return how much the runs differ; None where too few have this size."""
        sigma_run = standard_deviation(np.log(self.medians_s))
        if sigma_run is None or self.num_runs < FEWEST_RUNS:
            return None
        return SizeFloor(
            what=self.what, median_s=self.median_s, sigma_run=sigma_run, num_runs=self.num_runs
        )

    @property
    def num_runs(self) -> int:
        """Runs that have this size."""
        return int(np.isfinite(self.medians_s).sum())

    @property
    def median_s(self) -> float:
        return float(np.nanmedian(self.medians_s))


def repeat(options: SelftestOptions) -> list[Record]:
    """Measure three sizes in fresh processes, all sizes of a sweep before its next round."""
    seeds = f"seed=range(0,{options.num_runs})"
    return [
        *sweep(options, "all_reduce", (ALL_REDUCE[0], seeds, *ALL_REDUCE[1:])),
        *sweep(options, "matrix_product", (MATRIX_PRODUCT[0], seeds, *MATRIX_PRODUCT[1:])),
    ]


def sweep(
    options: SelftestOptions,
    name: str,
    points: Sequence[str],
    variables: dict[str, str] | None = None,
) -> list[Record]:
    """Run a sweep as a user does; raise SelftestFailed unless all of its points are measured."""
    folder = options.folder / name
    arguments = ["-m", *points, *options.overrides(), f"hydra.sweep.dir={folder}"]
    command = child.module_command(child.BENCHKIT, arguments).command
    program = child.ChildCommand(command, environment={**os.environ, **(variables or {})})
    with (options.folder / f"{name}.log").open("wb+") as log:
        code, line = child.run_logged(log, program)
    paths = sorted(folder.glob(f"*/{files.FILE_NAME}"), key=lambda path: int(path.parent.name))
    records = [files.read(path) for path in paths]
    for record in records:
        if record.status != "ok":
            reason = record.error.message.splitlines()[0] if record.error else ""
            raise SelftestFailed(f"{record.title}: {record.status}: {reason}")
    if code or not records:
        raise SelftestFailed(line or f"exit code {code}")
    return records


def group_runs(records: Sequence[Record]) -> list[SizeRuns]:
    """Return the runs of each size, by the order in which sizes were measured first.

    The seed is the number of a run. A case that a run lacks is NaN there, so that neighbours stay
    pairs: a call that is short only in some runs has no latency in the others.
    """
    num_runs = 1 + max(record.settings.seed for record in records)
    runs_of_size: dict[str, SizeRuns] = {}
    for record in records:
        for case in record.cases:
            what = name_of(record, case)
            runs = runs_of_size.setdefault(what, SizeRuns(what, [math.nan] * num_runs))
            times = case.samples.times
            runs.medians_s[record.settings.seed] = float(np.median(times))
            if modes := find_modes(times):
                runs.slow_shares.append(modes.slow_share)
    return list(runs_of_size.values())


def name_of(record: Record, case: CaseRecord) -> str:
    """Return the name of a size: "all_reduce 1KiB latency" or "matmul_lut 512"."""
    sizes = [text.split("=", 1)[1] for text in record.overrides if text.startswith("data_size=")]
    return " ".join([record.title, *sizes, *map(str, case.labels.values())])


QUANTUM_S = 1e-4
UNDISTURBED = 0.1
"""Quantile of the times that counts as undisturbed; the minimum may be of a higher frequency."""
LONGER = 1.1
"""A quantum that takes longer than this multiple of an undisturbed one was disturbed."""
KERNEL_COUNTERS = ("steal_s", "throttled_s", "pressure_s")


@dataclass(frozen=True)
class CoreNoise:
    """Time that a core lost.

    `longer_share` is the share of disturbed quanta, `lost_share` that of time beyond undisturbed
    quanta.
    """

    core: int
    longer_share: float
    lost_share: float
    longest_s: float


@dataclass(frozen=True)
class Noise:
    """Noise of all cores, and the seconds of KERNEL_COUNTERS in the meantime."""

    cores: list[CoreNoise]
    seconds: float
    counted_s: dict[str, float] = field(default_factory=dict)


def spin(count: int) -> None:
    for _ in range(count):
        pass


def calibrate_count(now: Callable[[], float] = time.perf_counter) -> int:
    """Return the count for which `spin` takes about QUANTUM_S."""
    count = 1000
    fastest = min(time_spin(count, now) for _ in range(20))
    return max(1, round(count * QUANTUM_S / fastest)) if fastest > 0 else count


def time_spin(count: int, now: Callable[[], float]) -> float:
    start = now()
    spin(count)
    return now() - start


def bind_to(cores: set[int]) -> None:
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        why = f"sched_setaffinity: {error.strerror}"
        raise SelftestFailed(f"this process may not choose its core ({why})") from None


def measure_cores(
    seconds: float,
    now: Callable[[], float] = time.perf_counter,
    bind: Callable[[set[int]], None] = bind_to,
) -> Noise:
    """Time quanta on each usable core in turn, for `seconds` together."""
    cores = affinity_cores()
    counters, start = read_counters(), now()
    noises = []
    try:
        for core in cores:
            bind({core})
            count, times, until = calibrate_count(now), list[float](), now() + seconds / len(cores)
            while not times or now() < until:
                times.append(time_spin(count, now))
            noises.append(noise_of(core, times))
    finally:
        bind(set(cores))
    growth = dict(zip(COUNTERS, np.subtract(read_counters(), counters).tolist(), strict=True))
    return Noise(noises, now() - start, {name: growth[name] for name in KERNEL_COUNTERS})


def noise_of(core: int, times: Sequence[float]) -> CoreNoise:
    quanta = np.asarray(times, dtype=np.float64)
    undisturbed = np.quantile(quanta, UNDISTURBED)
    lost = np.maximum(quanta - undisturbed, 0).sum()
    return CoreNoise(
        core=core,
        longer_share=float((quanta > LONGER * undisturbed).mean()),
        lost_share=float(lost / quanta.sum()),
        longest_s=float(quanta.max()),
    )


LOST_SHARE = 0.01
"""A core that loses a larger share of its time is called noisy."""
BUSY_SHARE = 0.1
"""A core that loses more had other work: the runs then differ by more than the machine."""
MOST_CORES = 4
ALPHA = 0.05


@dataclass(frozen=True)
class Findings:
    found_on: Fingerprint
    noise: Noise
    runs: Sequence[SizeRuns]


def render(findings: Findings) -> str:
    """Return the page: a title and one paragraph per part."""
    host = findings.found_on
    threads = f"{host.threads} thread" + "s" * (host.threads > 1)
    title = (
        f"Selftest of {host.cpu}, {host.cores:g} cores, Linux {host.kernel}, torch {host.torch}: "
        f"{host.world_size} ranks of {threads} by {host.backend} on {host.device}"
    )
    parts = (
        cores(findings.noise),
        run_differences(findings.runs),
        modes(findings.runs),
        loops(findings.runs),
    )
    return "\n\n".join([title, *("\n  ".join(part) for part in parts)])


def cores(noise: Noise) -> Iterator[str]:
    """Yield what the operating system and the hypervisor took from the cores."""
    by_loss = sorted(noise.cores, key=lambda core: core.lost_share, reverse=True)
    noisy = [core for core in by_loss if core.lost_share > LOST_SHARE]
    verdict = "NOISY" if noisy else "QUIET"
    yield f"Noise: {verdict}, core {by_loss[0].core} lost {by_loss[0].lost_share:.2%} of its time"
    if noisy:
        yield "all that follows includes this noise: repeat the selftest when the machine is idle"
    yield from map(core_line, by_loss[:MOST_CORES])
    if len(by_loss) > MOST_CORES:
        yield f"{len(by_loss) - MOST_CORES} more cores lost less"
    counted = ", ".join(f"{name[:-2]} {spent:.3g} s" for name, spent in noise.counted_s.items())
    yield f"the kernel counted in {noise.seconds:.3g} s: {counted}"


def core_line(core: CoreNoise) -> str:
    return (
        f"core {core.core}: {core.longer_share:.2%} of equal pieces of work took longer, "
        f"{core.lost_share:.2%} of the time was lost, longest {1e3 * core.longest_s:.3g} ms"
    )


def run_differences(runs: Sequence[SizeRuns]) -> Iterator[str]:
    widths = [difference_of_runs(floor.sigma_run) for floor in floors_of(runs)]
    yield (
        f"Runs: two single runs differ by {plus_minus(min(widths))} to {plus_minus(max(widths))}; "
        "smaller changes need repeated runs"
    )
    for size in runs:
        floor = size.floor()
        differ = f"in {size.num_runs} of {len(size.medians_s)} runs, too few for a noise floor"
        if floor:
            width = plus_minus(difference_of_runs(floor.sigma_run))
            deviation = f"standard deviation {percent(floor.sigma_run)}"
            differ = f"{floor.num_runs} runs, {deviation}, two runs {width}"
        yield f"{size.what}: {1e3 * size.median_s:.4g} ms, {differ}"


def floors_of(runs: Sequence[SizeRuns]) -> list[SizeFloor]:
    return [floor for size in runs if (floor := size.floor())]


def modes(runs: Sequence[SizeRuns]) -> Iterator[str]:
    bimodal = [size for size in runs if size.slow_shares]
    yield f"Modes: {'TWO' if bimodal else 'ONE'}" + (
        ", a single median hides them: look at p25 and p95" if bimodal else " in every run"
    )
    for size in bimodal:
        shares = f"{min(size.slow_shares):.0%} to {max(size.slow_shares):.0%}"
        yield (
            f"{size.what}: in {len(size.slow_shares)} of {len(size.medians_s)} runs, "
            f"{shares} of the calls are slow"
        )


def loops(runs: Sequence[SizeRuns]) -> Iterator[str]:
    """Yield the time of calls back to back over that of single calls, in the same runs."""
    medians = {size.what: np.array(size.medians_s) for size in runs}
    pairs: dict[str, tuple[Array, Array]] = {}
    for what, single in medians.items():
        looped = medians.get(what.removesuffix(LATENCY) + BACK_TO_BACK)
        if what.endswith(LATENCY) and looped is not None:
            pairs[what.removesuffix(LATENCY).strip()] = (single, looped)
    tests = {what: SignedRank(log_ratios(*pair)) for what, pair in pairs.items()}
    differ = any(not contains(test, 0.0) for test in tests.values())
    verdict = "TWO TIMES: say which one you mean" if differ else "no difference that shows"
    yield f"Back to back and single calls: {verdict if tests else 'not measured'}"
    for what, test in tests.items():
        yield f"{what}: a call back to back takes {ratio(test)} times as long as a single one"


def contains(test: SignedRank, value: float) -> bool:
    low, high = test.interval(ALPHA)
    return low <= value <= high


def ratio(test: SignedRank) -> str:
    """Return a ratio with its interval, if there is one: "1.003 [0.991, 1.02]"."""
    low, high = test.interval(ALPHA)
    interval = "" if math.isinf(high) else f" {ratio_interval(math.exp(low), math.exp(high))}"
    return f"{math.exp(test.estimate):.3f}{interval}"


EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
BACKENDS = ("gloo", "nccl", "ucc", "mpi")
SECONDS = 60.0
HOST_WAIT_S = 3600.0


def main(arguments: list[str]) -> int:
    """Run the selftest; return 0, 1 if a part failed, 2 for a wrong argument."""
    options = parser().parse_args(arguments)
    folder = options.dir or state_folder()
    try:
        require_startable(options.ranks, options.seconds, folder)
    except (ConfigError, LaunchError) as error:
        say(str(error))
        return EXIT_USAGE
    if remark := allocation_remark():
        say(remark)
    try:
        read(folder)
    except ValueError as error:
        say(f"{error}; it is replaced")
    with tempfile.TemporaryDirectory(prefix="benchkit-selftest-") as temporary:
        selftest_options = SelftestOptions(
            options.backend, options.ranks, options.seconds, Path(temporary)
        )
        try:
            findings = measure_machine(selftest_options)
        except (SelftestFailed, HostTaken, OSError, ValueError) as error:
            say(f"not measured: {error}")
            return EXIT_FAILED
    written_at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    floor = machine_floor(findings.found_on, floors_of(findings.runs), written_at)
    print(render(findings))
    lost = max(core.lost_share for core in findings.noise.cores)
    if lost > BUSY_SHARE and not options.even_if_busy:
        busy = f"other work took {percent(lost)} of a core's time"
        say(f"noise floor not stored: {busy}; repeat when idle, or with --even-if-busy")
        return EXIT_FAILED
    try:
        path = store(floor, folder)
    except OSError as error:
        say(f"noise floor not written: {error}")
        return EXIT_FAILED
    print(f"\nnoise floor {floor.id} in {path}; it applies for 30 days")
    return EXIT_OK


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(
        prog="python -m benchkit selftest", description=__doc__
    )
    argument_parser.add_argument(
        "--backend", choices=BACKENDS, default="gloo", help="default: gloo"
    )
    argument_parser.add_argument("--ranks", type=int, default=2, help="default: 2")
    argument_parser.add_argument(
        "--dir", type=Path, help=f"of noise_floor.json; default: {state_folder()}"
    )
    argument_parser.add_argument(
        "--even-if-busy", action="store_true", help="store the noise floor anyway"
    )
    argument_parser.add_argument("--seconds", type=float, default=SECONDS, help=argparse.SUPPRESS)
    return argument_parser


def require_startable(ranks: int, seconds: float, folder: Path) -> None:
    """Raise ConfigError or LaunchError if the selftest cannot begin."""
    context = require_launcher()
    if context.num_processes > 1:
        raise ConfigError(
            f"{context.launcher} started {context.num_processes} processes; allowed is one, "
            "it starts the ranks"
        )
    if ranks < 1:
        raise ConfigError(f"--ranks {ranks}: allowed is >= 1")
    if not (math.isfinite(seconds) and seconds > 0):
        raise ConfigError(f"--seconds {seconds}: allowed is > 0")
    if folder == state_folder() and folder.is_relative_to(os.devnull):
        raise ConfigError("this user has no home to keep floors in; choose a folder by --dir")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}; choose another by --dir") from None
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{folder}: not writable; choose another by --dir")


def measure_machine(options: SelftestOptions) -> Findings:
    lock = HostLock()
    try:
        lock.acquire(lambda holder: say(f"waits for {holder}"), limit=lambda holder: HOST_WAIT_S)
    except NoLock as error:
        say(f"{error}: other runs may disturb this one")
    try:
        say(f"cores, about {options.seconds / 12:.2g} s")
        noise = measure_cores(options.seconds / 12)
    finally:
        lock.release()
    say(f"{options.num_runs} identical runs of each size, in fresh processes")
    records = repeat(options)
    return Findings(found_on(records[0]), noise, group_runs(records))


def found_on(record: Record) -> Fingerprint:
    settings = record.settings
    return fingerprint(
        record.environment,
        record.world_size,
        record.threads_per_rank,
        settings.backend.name,
        settings.hardware.device,
    )


def say(message: str) -> None:
    """Print a line to standard error; only the page goes to standard output."""
    print(f"benchkit selftest: {message}", file=sys.stderr, flush=True)
