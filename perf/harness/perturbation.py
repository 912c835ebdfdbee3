"""Times a suite's case by a bare loop and by benchkit, in turns, in the same ranks."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
from benchkit.api.case import CONFIGURED, Case
from benchkit.api.keys import MeasureConfig
from benchkit.api.regions import use_marker
from benchkit.measure.clocks import HostClock
from benchkit.measure.timer import measure
from benchkit.statistics.samples import slowest_rank


class Ranks(Protocol):
    """How the ranks of a job talk: `benchkit.rank.backends.Group`."""

    def barrier(self) -> None: ...

    def all_gather(self, values: list[float]) -> list[list[float]]: ...


def plan(calls: int | str, samples: int, warm_up: int = 1) -> MeasureConfig:
    """Returns a plan of a fixed number of samples in one block."""
    return MeasureConfig(
        mode="loop",
        calls_per_sample=calls,
        warmup_iterations=warm_up,
        max_warmup_seconds=0.0,
        target_rel_ci=None,
        max_iterations=samples,
        max_seconds=1e9,
        min_blocks=1,
        block_seconds=1e9,
        probe_seconds=1.0,
        cold_l2=False,
        alone="never",
    )


def bare_loop(case: Case, calls: int, count: int, ranks: Ranks) -> list[float]:
    """Returns seconds per call of `count` samples after one that is set aside.

    This is what a careful user writes by hand.
    """
    samples = []
    for _ in range(count + 1):
        case.reset()
        ranks.barrier()
        start = time.perf_counter()
        for _ in range(calls):
            case.step()
        samples.append((time.perf_counter() - start) / calls)
    return samples[1:]


def by_benchkit(case: Case, calls: int, count: int, ranks: Ranks, index: int) -> list[float]:
    """Returns the same samples of rank `index`, taken by `measure` with all that it does beside."""
    clock = HostClock()
    alone = replace(case, calls=CONFIGURED)
    with use_marker(clock.region):
        [result] = measure(
            [alone],
            plan(calls, count),
            clock=clock,
            barrier=ranks.barrier,
            all_gather=ranks.all_gather,
            seed=0,
        )
    return result.samples_s[index]


def calls_of(case: Case, ranks: Ranks) -> int:
    """Returns the calls of one of its samples, as benchkit finds them."""
    [result] = measure(
        [case],
        plan(1, 1, warm_up=0),
        clock=HostClock(),
        barrier=ranks.barrier,
        all_gather=ranks.all_gather,
        seed=0,
    )
    return result.calls_per_sample


def compare(
    case: Case, ranks: Ranks, index: int, rounds: int, block_s: float, again: bool = False
) -> dict[str, list[float]]:
    """Times a case in both ways, in blocks whose order is random.

    Args:
        case: a suite's case, verified.
        ranks: all ranks, which call this together.
        index: of this rank.
        rounds: blocks of each arm.
        block_s: length of a block in seconds.
        again: whether the bare loop is an arm twice, to tell how well the machine repeats itself.

    Returns:
        By arm the median of each block, of the slowest rank in seconds: [round].
    """
    calls = calls_of(case, ranks)
    first_s = max(row[0] for row in ranks.all_gather(bare_loop(case, calls, 1, ranks)))
    count = max(1, round(block_s / (calls * first_s)))
    bare = partial(bare_loop, case, calls, count, ranks)
    arms: dict[str, Callable[[], list[float]]] = {"bare": bare}
    arms["benchkit"] = partial(by_benchkit, case, calls, count, ranks, index)
    if again:
        arms["again"] = bare
    order = random.Random(0)  # the same on all ranks
    medians: dict[str, list[float]] = {name: [] for name in arms}
    for take in arms.values():
        take()  # warms up
    for _ in range(rounds):
        for name in order.sample(list(arms), len(arms)):
            samples = slowest_rank(ranks.all_gather(arms[name]()))
            medians[name].append(float(np.median(samples)))
    return medians
