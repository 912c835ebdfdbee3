"""Measure how often a comparison is right, with real processes: identical code, and slowed calls.

    python -m perf.compare_real FOLDER [--pairs 120]

Compare arms of perf/slowed.py by `python -m benchkit compare`, into FOLDER, unless it exists, and print Markdown
tables: each ten consecutive pairs are a separate comparison, and so are up to fifty for `--pairs auto`. With 120 pairs
it takes an hour.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from analysis.compare.pairs import CaseKey, MeasuredRun, PairedTimes, cases_of, names_of, read_run, times_of
from analysis.compare.verdicts import FASTER, SAME, SLOWER
from benchkit.compare.command import read_plan
from benchkit.statistics.design import auto_plan, fixed_plan
from benchkit.statistics.multiplicity import judge_secondary_metrics
from benchkit.statistics.power import difference_of_runs, run_deviations
from benchkit.statistics.rank_tests import SignedRank

from perf.compare_rates import judge_at_looks, mann_whitney, percent, table

Array = npt.NDArray[np.float64]
BUDGET = (
    "measure=quick", "measure.max_iterations=2000", "measure.max_seconds=0.12", "measure.block_seconds=0.02",
    "measure.probe_seconds=0.02", "measure.max_warmup_seconds=0.05",
)  # fmt: skip
IDENTICAL, SLOWER_10, SLOWER_3, TAIL = "plain", "env:SLOWED_BY=0.1", "env:SLOWED_BY=0.03", "env:SLOWED_TAIL=0.02"
COMPARISONS = {
    "allreduce": ("plain", IDENTICAL, SLOWER_10, TAIL, "+suite=allreduce", "-m", "data_size=1KiB,1MiB"),
    "matmul": ("plain", IDENTICAL, SLOWER_10, SLOWER_3, "+suite=matmul_lut", "sizes=[512]", "hardware.slowdown=1"),
}
FAIL_ON = 0.05
FAIL_ON_SMALL = 0.01
"""For SLOWER_3: with FAIL_ON a change of 3 % does not matter."""
WINDOW, MOST = 10, 50


class Seen:
    """The runs of one comparison: the metrics of each arm, by point, over all whole rounds."""

    def __init__(self, folder: Path) -> None:
        self._plan = read_plan(folder)
        self._runs: dict[tuple[int, int], MeasuredRun] = {}
        self._pairs, self._controls = [], []
        for number, played in enumerate(self._plan.order, 1):
            folders = {role: folder / "runs" / f"{number:03d}-{role}" for role in played.roles}
            if all((path / "run.json").exists() for path in folders.values()):
                self._runs |= {(number, role): read_run(path) for role, path in folders.items()}
                (self._controls if played.is_control else self._pairs).append(number)
        self.names: dict[CaseKey, str] = names_of(cases_of(list(self._runs.values())), self._runs[1, 0])
        self.arms = [arm.text for arm in self._plan.arms]

    def times(self, arm: str, case: CaseKey) -> PairedTimes:
        """Return the times of the last arm with this text, paired with the baseline."""
        return times_of(self._runs, self._pairs, len(self.arms) - 1 - self.arms[::-1].index(arm), case)

    def controls(self, case: CaseKey) -> PairedTimes:
        return times_of(self._runs, self._controls, 1, case)


def measure(folder: Path, pairs: int) -> None:
    for number, (name, arguments) in enumerate(COMPARISONS.items(), 1):
        if not (folder / name / "compare_result.json").exists():
            place = ("--pairs", str(pairs), "--seed", str(number), "--dir", str(folder / name))
            command = [sys.executable, "-m", "benchkit", "compare", *arguments, *BUDGET, *place]
            subprocess.run(command, check=False, env=os.environ | {"BENCHKIT_SUITES": "perf.slowed"})


def windows(logs: Array, size: int, step: int) -> Iterator[Array]:
    """Split into pieces of consecutive pairs; the last piece is whole."""
    for begin in range(0, len(logs) - size + 1, step):
        yield logs[begin : begin + size]


def words_of(logs: Array, fail_on: float) -> list[str]:
    """Return the word of each ten consecutive pairs."""
    return [judge_at_looks(fixed_plan(WINDOW), [each], fail_on)[0][0] for each in windows(logs, WINDOW, WINDOW)]


def share(found: Sequence[bool]) -> str:
    return f"{sum(found)} of {len(found)}"


def identical_rows(seen: Seen) -> Iterator[list[str]]:
    """Yield false words on identical code, by comparisons of ten pairs and by two single runs."""
    for case, name in seen.names.items():
        pairs, controls = seen.times(IDENTICAL, case), seen.controls(case)
        every, large, raw, singles = [], [], [], []
        for times in (pairs, controls):
            logs = times.log_ratios("p25")
            every += [word in (FASTER, SLOWER) for word in words_of(logs, 0.0)]
            large += [word in (FASTER, SLOWER) for word in words_of(logs, FAIL_ON)]
            medians = times.log_ratios("median")
            singles += [bool(abs(each) > np.log1p(FAIL_ON)) for each in medians if np.isfinite(each)]
            both = zip(times.baseline, times.candidate, strict=True)
            raw += [mann_whitney(a, b) != SAME for a, b in both if a is not None and b is not None]
        yield [name, share(every), share(large), share(raw), share(singles)]


def found_rows(seen: Seen, arm: str) -> Iterator[list[str]]:
    """Yield how many comparisons call an arm slower: by ten pairs, and by `auto` from every tenth pair on.

    After the last pair `auto` continues with the first one.
    """
    for case, name in seen.names.items():
        logs = seen.times(arm, case).log_ratios("p25")
        fail_on = FAIL_ON_SMALL if arm == SLOWER_3 else FAIL_ON
        words = words_of(logs, fail_on)
        begins = range(0, len(logs) - WINDOW + 1, WINDOW)
        ends = [judge_at_looks(auto_plan(MOST), [np.roll(logs, -begin)[:MOST]], fail_on) for begin in begins]
        pairs = [count for _, count in ends]
        whole = SignedRank(logs)
        low, high = np.exp(whole.interval(0.05))
        estimate = f"{np.exp(whole.estimate):.3f} [{low:.3f}, {high:.3f}]"
        slower = share([word == SLOWER for [word], _ in ends])
        yield [name, arm, estimate, share([word == SLOWER for word in words]), slower, f"{np.median(pairs):.0f}"]


def tail_rows(seen: Seen, arm: str) -> Iterator[list[str]]:
    """Yield how many comparisons find the tail, by Holm's correction over the metrics of a point."""
    figures = ("median", "p95", "p99", "mean")
    for case, name in seen.names.items():
        times = seen.times(arm, case)
        logs = {figure: times.log_ratios(figure) for figure in figures}
        for size in (WINDOW, 2 * WINDOW, 3 * WINDOW):
            pieces = list(zip(*(windows(each, size, size) for each in logs.values()), strict=True))
            found = [
                judge_secondary_metrics(
                    {figure: SignedRank(piece) for figure, piece in zip(figures[:3], each, strict=False)}
                )
                for each in pieces
            ]
            cells = [share([each[figure].is_significant for each in found]) for figure in figures[:3]]
            p99 = np.exp(SignedRank(logs["p99"]).estimate)
            yield [name, arm, str(size), *cells, f"{p99:.2f}"]


def spread_rows(seen: Seen) -> Iterator[list[str]]:
    """Yield the spread of the baseline's runs, and of their ratios to the identical arm."""
    for case, name in seen.names.items():
        spread = run_deviations(*seen.times(IDENTICAL, case).figures("median"))
        sd = spread.baseline or 0.0
        pair = (spread.ratios or 0.0) / np.sqrt(2)
        yield [name, percent(sd), percent(pair), f"± {percent(difference_of_runs(sd))}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=120)
    given = parser.parse_args()
    measure(given.folder, given.pairs)
    seen = [Seen(given.folder / name) for name in COMPARISONS]
    rows = [row for each in seen for row in identical_rows(each)]
    heads = ["point", "FASTER or SLOWER, any change", f"the same, {percent(FAIL_ON)}"]
    print("Identical code: wrong answers of ten pairs, and of two single runs\n")
    print(table([*heads, "Mann-Whitney, samples of two runs", f"two medians, {percent(FAIL_ON)}"], rows))
    print("\nSlower on purpose: found\n")
    rows = [row for each in seen for arm in each.arms[2:] for row in found_rows(each, arm)]
    auto = f"of auto, up to {MOST}"
    print(table(["point", "arm", "ratio of all pairs", "SLOWER of ten pairs", f"SLOWER {auto}", f"pairs {auto}"], rows))
    print("\nThe tail\n")
    rows = [row for arm in (TAIL, IDENTICAL) for row in tail_rows(seen[0], arm)]
    print(table(["point", "arm", "pairs", "median", "p95", "p99", "ratio of p99"], rows))
    print("\nBetween runs of the baseline\n")
    rows = [row for each in seen for row in spread_rows(each)]
    print(table(["point", "sd of runs", "sd of runs in a pair", "two runs differ by"], rows))


if __name__ == "__main__":
    main()
