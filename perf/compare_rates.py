"""Measure how often a comparison of two arms is right, by simulation of runs with a known ratio.

    python -m perf.compare_rates [--runs 2000] [--fail-on 0.05]

Print Markdown tables. Each simulated run gives one number; both arms run in the order of `order_of_runs`, and `judge`
gives the verdict. Two other methods compare one run of each arm: Mann-Whitney's test of their samples, and the ratio of
their metrics.
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from analysis.compare.verdicts import FASTER, SAME, SLOWER, UNCLEAR, judge_points
from benchkit.statistics.design import LookPlan, auto_plan, fixed_plan, order_of_runs
from benchkit.statistics.power import equivalent_sd, smallest_effect
from benchkit.statistics.rank_tests import SignedRank

Array = npt.NDArray[np.float64]
Process = Callable[[np.random.Generator, int, int], Array]
"""Logarithms of the results of runs, with a spread of 1: [simulation, run], runs in order of time."""
SPREADS = (0.03, 0.06, 0.10, 0.15, 0.30)
SMALL, LARGE = 0.03, 0.10
MAX_PAIRS = 50
AUTO = f"auto, up to {MAX_PAIRS}"
PLANS: Mapping[str, LookPlan] = {
    **{f"{pairs} pairs": fixed_plan(pairs) for pairs in (10, 20, 30)},
    AUTO: auto_plan(MAX_PAIRS),
}
NAIVE = ("Mann-Whitney, samples of two runs", "two runs, ratio")
DEGREES = 3
"""Degrees of freedom of Student's t; its fourth moment is infinite."""
TREND, STEP = 0.1, 0.2
"""Drift per run, in units of the spread: its mean, and the standard deviation of a random walk."""
SLOW_SHARE, TURNOVER = 0.3, 0.2
"""Two modes: the share of slow runs, and the sum of both transition probabilities per run: the slow mode lasts 7 runs
on average, the fast one 17."""
OF_MODES = math.sqrt(8 / 9)
"""Part of the spread that is the difference of the modes; the rest is lognormal."""
SAMPLES, WITHIN = 500, 0.1
"""Samples of a run, and their spread within it."""
POINTS, CHANGED, CHANGED_SPREAD = 20, 5, 0.06


def lognormal(random: np.random.Generator, simulations: int, runs: int) -> Array:
    return random.standard_normal((simulations, runs))


def heavy_tailed(random: np.random.Generator, simulations: int, runs: int) -> Array:
    return random.standard_t(DEGREES, (simulations, runs)) / math.sqrt(DEGREES / (DEGREES - 2))


def drifting(random: np.random.Generator, simulations: int, runs: int) -> Array:
    walk = STEP * random.standard_normal((simulations, runs)).cumsum(axis=1)
    return lognormal(random, simulations, runs) + walk + TREND * np.arange(runs)


def two_modes(random: np.random.Generator, simulations: int, runs: int) -> Array:
    """Simulate a Markov chain between fast and slow runs."""
    slow = np.empty((runs, simulations), dtype=bool)
    held = random.random(simulations) < SLOW_SHARE
    for index in range(runs):
        slow[index] = held
        drawn = random.random(simulations)
        held = np.where(held, drawn >= (1 - SLOW_SHARE) * TURNOVER, drawn < SLOW_SHARE * TURNOVER)
    modes = slow.T / math.sqrt(SLOW_SHARE * (1 - SLOW_SHARE))
    return OF_MODES * modes + math.sqrt(1 - OF_MODES**2) * lognormal(random, simulations, runs)


PROCESSES: Mapping[str, Process] = {
    "lognormal": lognormal,
    "heavy-tailed": heavy_tailed,
    "drifting": drifting,
    "two sticky modes": two_modes,
}


def places(num_pairs: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the time slots of baseline and candidate of each pair: [arm, pair]; A/A pairs take time, too."""
    rounds = enumerate(order_of_runs(num_pairs, seed))
    pairs = [
        (2 * index + each.roles.index(0), 2 * index + each.roles.index(1))
        for index, each in rounds
        if not each.is_control
    ]
    return np.array(pairs).T


def simulated(process: Process, random: np.random.Generator, simulations: int) -> tuple[Array, Array]:
    """Simulate the runs of baseline and candidate: [simulation, pair] each."""
    runs = process(random, simulations, 2 * len(order_of_runs(MAX_PAIRS, 0)))
    baseline, candidate = np.stack([values[places(MAX_PAIRS, seed)] for seed, values in enumerate(runs)], axis=1)
    return baseline, candidate


def judge_at_looks(plan: LookPlan, points: Sequence[Array], fail_on: float) -> tuple[list[str], int]:
    """Return the final words of a comparison of points [pair], and its number of pairs."""
    for look in plan.looks:
        verdicts = judge_points(
            [SignedRank(logs[:look]) for logs in points], [None] * len(points), fail_on=fail_on, alpha=plan.alpha
        )
        words = [verdict.word for verdict in verdicts]
        if not plan.goes_on(look, UNCLEAR not in words):
            break
    return words, look


def mann_whitney(first: Array, second: Array, alpha: float = 0.05) -> str:
    """Return the word of Mann-Whitney's test of samples without ties: [sample] each."""
    n, m = len(first), len(second)
    ranks = np.concatenate([first, second]).argsort().argsort() + 1
    centred = ranks[n:].sum() - m * (m + 1) / 2 - n * m / 2
    z = centred / math.sqrt(n * m * (n + m + 1) / 12)
    return by_sign(z, NormalDist().inv_cdf(1 - alpha / 2))


def by_sign(value: float, limit: float) -> str:
    return SLOWER if value > limit else FASTER if value < -limit else SAME


Ends = Mapping[str, Sequence[tuple[str, int]]]
"""Word and number of pairs of each simulation, by method."""


def compared(process: Process, spread: float, effect: float, simulations: int, fail_on: float) -> Ends:
    """Return the results of each method on runs of one kind; the same runs for every spread and effect."""
    random = np.random.default_rng(0)
    baseline, candidate = (spread * each for each in simulated(process, random, simulations))
    differences = candidate - baseline + math.log1p(effect)
    noise = WITHIN * random.standard_normal((simulations, 2, SAMPLES))
    samples = zip(noise[:, 0], noise[:, 1] + differences[:, :1], strict=True)
    found = {
        NAIVE[0]: [(mann_whitney(first, second), 1) for first, second in samples],
        NAIVE[1]: [(by_sign(logs[0], math.log1p(fail_on)), 1) for logs in differences],
    }
    for name, plan in PLANS.items():
        ends = [judge_at_looks(plan, [logs], fail_on) for logs in differences]
        found[name] = [(word, pairs) for [word], pairs in ends]
    return found


def share(ends: Sequence[tuple[str, int]], *words: str) -> float:
    return sum(word in words for word, _ in ends) / len(ends)


def mean_pairs(ends: Sequence[tuple[str, int]]) -> str:
    return f"{np.mean([pairs for _, pairs in ends]):.0f}"


def cell(wrong: float, *others: float) -> str:
    return " / ".join([f"{wrong:.3f}", *(f"{each:.2f}" for each in others)])


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def by_plan(simulations: int, fail_on: float) -> None:
    different, same = [], []
    for kind, process in PROCESSES.items():
        for spread in SPREADS:
            none, small, large, limit = (
                compared(process, spread, effect, simulations, fail_on) for effect in (0.0, SMALL, LARGE, fail_on)
            )
            head = [kind, f"{spread:.2f}"]
            cells = [
                cell(share(none[way], FASTER, SLOWER), share(small[way], SLOWER), share(large[way], SLOWER))
                for way in (*PLANS, *NAIVE)
            ]
            different.append([*head, *cells])
            cells = [cell(share(limit[way], SAME), share(none[way], SAME), share(small[way], SAME)) for way in PLANS]
            pairs = " / ".join(mean_pairs(ends[AUTO]) for ends in (none, small, large))
            same.append([*head, *cells, pairs])
    changes = f"+{percent(SMALL)} / at +{percent(LARGE)}"
    print(
        f"FASTER or SLOWER on identical code / SLOWER at {changes}; fail_on {percent(fail_on)}, {simulations} times\n"
    )
    print(table(["runs", "sd", *PLANS, *NAIVE], different))
    if fail_on:
        small_change = f"+{percent(SMALL)}; mean pairs of auto on identical code / at {changes}"
        print(f"\nSAME at +{percent(fail_on)} / on identical code / at {small_change}\n")
        print(table(["runs", "sd", *PLANS, "pairs of auto"], same))


def among_points(simulations: int, fail_on: float) -> None:
    """Compare many points at once, none or some of them slower."""
    rows = []
    for changed in (0, CHANGED):
        random = np.random.default_rng(1)
        shifts = np.where(np.arange(POINTS) < changed, math.log1p(LARGE), 0.0)
        noise = math.sqrt(2) * CHANGED_SPREAD * random.standard_normal((simulations, POINTS, MAX_PAIRS))
        for name, plan in PLANS.items():
            found = [judge_at_looks(plan, list(logs + shifts[:, None]), fail_on) for logs in noise]
            called = np.array([[word in (FASTER, SLOWER) for word in words] for words, _ in found])
            wrong = called[:, changed:].sum(axis=1)
            false_share = np.mean(wrong / np.maximum(1, called.sum(axis=1)))
            power = f"{called[:, :changed].mean():.2f}" if changed else ""
            pairs = np.mean([pairs for _, pairs in found])
            shares = (f"{np.mean(wrong > 0):.3f}", f"{false_share:.3f}")
            rows.append([f"{changed} of {POINTS}", name, *shares, power, f"{pairs:.0f}"])
    kind = f"lognormal, sd {CHANGED_SPREAD}, some slower by {percent(LARGE)}, fail_on {percent(fail_on)}"
    print(f"\n{POINTS} points, {kind}\n")
    print(table(["changed", "plan", "any false word", "false discovery rate", "changed ones found", "pairs"], rows))


def false_alarms(simulations: int) -> None:
    """Print how often the interval excludes 1 at any look, on identical code; the spread does not matter."""
    rows = []
    for kind, process in PROCESSES.items():
        baseline, candidate = simulated(process, np.random.default_rng(3), simulations)
        cells = []
        for plan in PLANS.values():
            alarms = [
                any(SignedRank(logs[:look]).p_outside(0.0) <= plan.alpha for look in plan.looks)
                for logs in candidate - baseline
            ]
            cells.append(f"{np.mean(alarms):.4f}")
        rows.append([kind, *cells])
    print(f"\nThe interval leaves out 1 on identical code, {simulations} times\n")
    print(table(["runs", *PLANS], rows))


def at_smallest_effect(simulations: int) -> None:
    """Print the power at the effect that `smallest_effect` gives for the true spread, and its estimate."""
    rows = []
    for kind, process in PROCESSES.items():
        baseline, candidate = simulated(process, np.random.default_rng(2), simulations)
        differences = candidate - baseline
        cells = []
        for pairs in (10, 20, 30):
            tests = [SignedRank(logs[:pairs]) for logs in differences]
            effect = smallest_effect(math.sqrt(2), pairs)
            power = np.mean([test.p_above(-effect) <= 0.025 for test in tests])
            estimated = [(equivalent_sd(test) or math.nan) / math.sqrt(2) for test in tests]
            cells.append(f"{power:.2f} / {np.median(estimated):.2f}")
        rows.append([kind, *cells])
    print("\nPower at the smallest detectable effect of 0.8 / median of the estimated spread over the true one\n")
    print(table(["runs", "10 pairs", "20 pairs", "30 pairs"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="simulations per cell")
    parser.add_argument("--fail-on", type=float, default=0.05, help="least change that matters, as a share")
    given = parser.parse_args()
    by_plan(given.runs, given.fail_on)
    among_points(max(1, given.runs // 2), given.fail_on)
    false_alarms(10 * given.runs)
    at_smallest_effect(given.runs)


if __name__ == "__main__":
    main()
