"""Measure the coverage of the 95 % intervals by simulation: times with a known median, in series of known kinds.

    python -m perf.coverage [--runs 1000]

Three tables. Median: the share of runs with an interval, and of those the share that contain the median; a run without
one has a range. Stopping: the same for runs that are tested after every block of BLOCK samples and end where
`measure.target_rel_ci` is met, at the latest after LENGTHS[-1]; the median is that of as many samples. Identical code:
the share of runs whose interval of `paired_speedup` of two equal, interleaved cases excludes 1.
"""

import argparse
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
from benchkit.measure.timer import Measurement, is_converged, stop_reason
from benchkit.statistics.intervals import series_interval
from benchkit.statistics.samples import Samples
from benchkit.statistics.summary import paired_speedup
from tests.support.fakes import plan

Array = npt.NDArray[np.float64]
Process = Callable[[np.random.Generator, int, int], Array]
"""Times [runs, n] in units of the median without disturbance."""
LENGTHS = (9, 15, 100, 700, 2000)
TURNS = (6, 9, 20, 50, 100, 700, 2000)
TARGETS = (0.05, 0.02)
BLOCK = 20
NOISE = 0.1
DRIFT = 1.1
SLOWER, SLOW_SHARE, TURNOVER = 3.0, 0.3, 0.04
"""Two modes: their ratio, the share of the slower one, and the sum of both transition probabilities per
sample: the slower mode lasts 36 samples on average, the faster one 83."""


def independent(random: np.random.Generator, runs: int, n: int) -> Array:
    return np.exp(NOISE * random.standard_normal((runs, n)))


def heavy_tailed(random: np.random.Generator, runs: int, n: int) -> Array:
    """Draw from Student's t with two degrees of freedom: its variance is infinite."""
    return np.exp(NOISE * random.standard_t(2, (runs, n)))


def drifting(random: np.random.Generator, runs: int, n: int) -> Array:
    return independent(random, runs, n) * np.linspace(1, DRIFT, n)


def autoregressive(rho: float) -> Process:
    """Draw AR(1): each value is rho times the previous one, plus noise."""

    def process(random: np.random.Generator, runs: int, n: int) -> Array:
        noise = random.standard_normal((n, runs)) * np.sqrt(1 - rho**2)
        values = np.empty((n, runs))
        held = random.standard_normal(runs)
        for index in range(n):
            held = values[index] = rho * held + noise[index]
        return np.exp(NOISE * values.T)

    return process


def two_modes(random: np.random.Generator, runs: int, n: int) -> Array:
    """Draw a Markov chain between a fast and a slow mode."""
    into_slow, into_fast = SLOW_SHARE * TURNOVER, (1 - SLOW_SHARE) * TURNOVER
    slow = np.empty((n, runs), dtype=bool)
    held = random.random(runs) < SLOW_SHARE
    for index in range(n):
        slow[index] = held
        drawn = random.random(runs)
        held = np.where(held, drawn >= into_fast, drawn < into_slow)
    return independent(random, runs, n) * np.where(slow.T, SLOWER, 1.0)


PROCESSES: Mapping[str, Process] = {
    "independent": independent,
    "heavy-tailed": heavy_tailed,
    "10 % drift": drifting,
    "AR(1) 0.5": autoregressive(0.5),
    "AR(1) 0.9": autoregressive(0.9),
    "two sticky modes": two_modes,
}


def median_cell(process: Process, random: np.random.Generator, runs: int, n: int, median: float) -> str:
    """Return shares: of runs with an interval, of intervals with the median, of runs whose interval misses it."""
    intervals = [series_interval(times) for times in process(random, runs, n)]
    given = [each for each in intervals if each is not None]
    holding = sum(low <= median <= high for low, high in given)
    misled = (len(given) - holding) / runs
    hold = f"{holding / len(given):.2f}" if given else "none"
    return f"{len(given) / runs:.2f} / {hold} / {misled:.3f}"


def stopped(times: Array, target: float) -> Measurement:
    """Measure a single case: blocks until `is_converged`."""
    config = plan(target_rel_ci=target, max_iterations=len(times))
    measurement = Measurement()
    for start in range(0, len(times), BLOCK):
        block = times[start : start + BLOCK].tolist()
        measurement.add([block], [[0.0] * len(block)], {})
        measurement.converged = is_converged(measurement, config)
        measurement.stopped_by = stop_reason(measurement, config, single_case=True)
        if measurement.stopped_by:
            break
    return measurement


def stopping_cell(process: Process, random: np.random.Generator, runs: int, target: float) -> str:
    """Return the median number of samples, and shares: of runs that stop early, of all intervals that contain the
    median, of those of early stops."""
    reference, longest = process(random, 2000, LENGTHS[-1]), LENGTHS[-1]
    lengths, holding = [], []
    for times in process(random, runs, longest):
        found = stopped(times, target).times()
        if interval := series_interval(found):
            lengths.append(len(found))
            holding.append(interval[0] <= np.median(reference[:, : len(found)]) <= interval[1])
    early = [held for held, length in zip(holding, lengths, strict=True) if length < longest]
    early_hold = f"{np.mean(early):.2f}" if early else "none"
    return f"{np.median(lengths):.0f} / {len(early) / runs:.2f} / {np.mean(holding):.2f} / {early_hold}"


def paired_cell(process: Process, random: np.random.Generator, runs: int, n: int) -> str:
    """Return shares of runs: with an interval of the ratio, and of those that distinguish two equal cases.

    Both cases are on one time line, in an order that is drawn anew in each round.
    """
    given = alarms = 0
    for turns in random.permuted(process(random, runs, 2 * n).reshape(runs, n, 2), axis=2):
        found = paired_speedup(*(Samples(times[None], blocks=[1] * n) for times in turns.T))
        if found.low is not None and found.high is not None:
            given += 1
            alarms += not found.low <= 1 <= found.high
    return f"{given / runs:.2f} / {alarms / runs:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    random, random_of_stopping = np.random.default_rng(0), np.random.default_rng(0)
    heads = "".join(f" {f'n = {n}':>21}" for n in LENGTHS)
    print(f"median: interval given / holds where given / misleads, {runs} runs\n{'':18}{heads}")
    for name, process in PROCESSES.items():
        median = float(np.median(process(random, 2000, 2000)))
        cells = [median_cell(process, random, runs, n, median) for n in LENGTHS]
        print(f"{name:18}" + "".join(f" {cell:>21}" for cell in cells), flush=True)
    heads_of_targets = "".join(f" {f'target {target}':>28}" for target in TARGETS)
    print(f"\nstopping: samples / ends early / holds / holds where early, {runs} runs\n{'':18}{heads_of_targets}")
    for name, process in PROCESSES.items():
        cells = [stopping_cell(process, random_of_stopping, runs, target) for target in TARGETS]
        print(f"{name:18}" + "".join(f" {cell:>28}" for cell in cells), flush=True)
    heads_of_turns = "".join(f" {f'{n} turns':>15}" for n in TURNS)
    print(f"\nidentical code: interval given / leaves out 1, {runs} runs\n{'':18}{heads_of_turns}")
    for name, process in PROCESSES.items():
        cells = [paired_cell(process, random, runs, n) for n in TURNS]
        print(f"{name:18}" + "".join(f" {cell:>15}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
