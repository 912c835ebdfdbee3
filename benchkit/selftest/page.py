"""The page of a selftest: each part in a few lines, its verdict first."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchkit.selftest.floor import Fingerprint
from benchkit.selftest.quantum import CoreNoise, Noise
from benchkit.selftest.runs import Runs
from benchkit.statistics.compare.signed_rank import SignedRank, log_ratios
from benchkit.statistics.compare.spread import difference_of_runs, percent
from benchkit.statistics.estimators import BACK_TO_BACK, LATENCY
from benchkit.statistics.intervals import Array

LOST_SHARE = 0.01
"""A core that loses a larger share of its time is called noisy."""
MOST_CORES = 4
"""Cores that are listed, those that lost most."""
ALPHA = 0.05


@dataclass(frozen=True)
class Findings:
    """What all parts of a selftest found."""

    found_on: Fingerprint
    noise: Noise
    runs: Sequence[Runs]


def render(found: Findings) -> str:
    """Returns the page: a title and one paragraph per part."""
    on = found.found_on
    threads = f"{on.threads} thread" + "s" * (on.threads > 1)
    title = (
        f"Selftest of {on.cpu}, {on.cores:g} cores, Linux {on.kernel}, torch {on.torch}: "
        f"{on.world_size} ranks of {threads} by {on.backend} on {on.device}"
    )
    parts = (
        cores(found.noise),
        spread(found.runs),
        modes(found.runs),
        loops(found.runs),
    )
    return "\n\n".join([title, *("\n  ".join(part) for part in parts)])


def cores(noise: Noise) -> Iterator[str]:
    """Yields what the operating system and the hypervisor took from the cores."""
    by_loss = sorted(noise.cores, key=lambda core: core.lost_share, reverse=True)
    noisy = [core for core in by_loss if core.lost_share > LOST_SHARE]
    verdict = "NOISY" if noisy else "QUIET"
    yield f"Noise: {verdict}, core {by_loss[0].core} lost {by_loss[0].lost_share:.2%} of its time"
    if noisy:
        yield "all that follows includes this noise: repeat the selftest when the machine is idle"
    yield from map(of_core, by_loss[:MOST_CORES])
    if len(by_loss) > MOST_CORES:
        yield f"{len(by_loss) - MOST_CORES} more cores lost less"
    counted = ", ".join(f"{name[:-2]} {spent:.3g} s" for name, spent in noise.counted_s.items())
    yield f"the kernel counted in {noise.seconds:.3g} s: {counted}"


def of_core(core: CoreNoise) -> str:
    """Returns the line of a core."""
    return (
        f"core {core.core}: {core.longer_share:.2%} of equal pieces of work took longer, "
        f"{core.lost_share:.2%} of the time was lost, longest {1e3 * core.longest_s:.3g} ms"
    )


def spread(runs: Sequence[Runs]) -> Iterator[str]:
    """Yields how much identical runs differ, by size."""
    floors = [each.floor() for each in runs]
    widths = [difference_of_runs(floor.sigma_run) for floor in floors]
    yield (
        f"Runs: two single runs differ by ± {percent(min(widths))} to ± {percent(max(widths))}; "
        "smaller changes need repeated runs"
    )
    for floor, width in zip(floors, widths, strict=True):
        yield (
            f"{floor.what}: {1e3 * floor.median_s:.4g} ms, {floor.num_runs} runs, standard "
            f"deviation {percent(floor.sigma_run)}, two runs ± {percent(width)}"
        )


def modes(runs: Sequence[Runs]) -> Iterator[str]:
    """Yields where times are of two kinds."""
    found = [each for each in runs if each.slow_shares]
    yield f"Modes: {'TWO' if found else 'ONE'}" + (
        ", a single median hides them: look at p25 and p95" if found else " in every run"
    )
    for each in found:
        shares = f"{min(each.slow_shares):.0%} to {max(each.slow_shares):.0%}"
        yield (
            f"{each.what}: in {len(each.slow_shares)} of {len(each.medians_s)} runs, "
            f"{shares} of the calls are slow"
        )


def loops(runs: Sequence[Runs]) -> Iterator[str]:
    """Yields the time of calls back to back over that of single calls, in the same runs."""
    medians = {each.what: np.array(each.medians_s) for each in runs}
    pairs: dict[str, tuple[Array, Array]] = {}
    for what, single in medians.items():
        looped = medians.get(what.removesuffix(LATENCY) + BACK_TO_BACK)
        if what.endswith(LATENCY) and looped is not None:
            pairs[what.removesuffix(LATENCY).strip()] = (single, looped)
    tests = {what: SignedRank(log_ratios(*pair)) for what, pair in pairs.items()}
    differ = any(not contains(test, 0.0) for test in tests.values())
    verdict = "DIFFERENT QUESTIONS, name which" if differ else "no difference that shows"
    yield f"Back to back and single calls: {verdict if tests else 'not measured'}"
    for what, test in tests.items():
        yield f"{what}: a call back to back takes {ratio(test)} times as long as one alone"


def contains(test: SignedRank, value: float) -> bool:
    """Returns whether an interval contains a value."""
    low, high = test.interval(ALPHA)
    return low <= value <= high


def ratio(test: SignedRank) -> str:
    """Returns a ratio with its interval, if there is one: "1.003 [0.991, 1.02]"."""
    low, high = test.interval(ALPHA)
    interval = "" if math.isinf(high) else f" [{math.exp(low):.3f}, {math.exp(high):.3f}]"
    return f"{math.exp(test.estimate):.3f}{interval}"
