"""Suites whose ranks time each case by a bare loop and by benchkit, in turns, instead of reporting it.

`BENCHKIT_SUITES=tests.perf.bare python -m benchkit …` puts one in place of each suite; every rank 0
appends a line of JSON per case to the file that BARE_OUTPUT names. See tests/perf/fidelity.py.
"""

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchkit.api.case import Case, Rank
from benchkit.api.regions import marked_by
from benchkit.api.registry import SUITES, Suite
from benchkit.api.schema import MeasureConfig
from benchkit.measure.clocks import HostClock
from benchkit.measure.timer import measure
from benchkit.statistics.summary import slowest_rank

OUTPUT, ROUNDS = "BARE_OUTPUT", "BARE_ROUNDS"
BLOCK_S = 0.1
"""Length of one block of an arm."""


def bare_loop(case: Case, calls: int, count: int, barrier: Callable[[], None]) -> list[float]:
    """Seconds per call, of `count` samples after one that is set aside: what a careful user writes by hand."""
    samples = []
    for _ in range(count + 1):
        case.reset()
        barrier()
        start = time.perf_counter()
        for _ in range(calls):
            case.step()
        samples.append((time.perf_counter() - start) / calls)
    return samples[1:]


def by_benchkit(case: Case, calls: int, count: int, group: Any, index: int) -> list[float]:
    """The same samples by `measure`, its regions marked and its disturbances counted."""
    plan = MeasureConfig("loop", calls, 1, 0.0, None, count, 1e9, 1, 1e9, 1.0)
    clock = HostClock()
    alone = replace(case, fill_seconds=0.0)
    with marked_by(clock.region):
        [result] = measure([alone], plan, clock=clock, barrier=group.barrier, exchange=group.exchange, seed=0)
    return result.samples_s[index]


def calls_of(case: Case, group: Any) -> int:
    """Calls in one of its samples, as benchkit finds them."""
    plan = MeasureConfig("per_iteration", 1, 0, 0.0, None, 1, 1e9, 1, 1e9, 1.0)
    [result] = measure([case], plan, clock=HostClock(), barrier=group.barrier, exchange=group.exchange, seed=0)
    return result.calls_per_sample


def compare(case: Case, group: Any, rank: Rank, rounds: int) -> dict[str, list[float]]:
    """Per arm the median of each block, of the slowest rank: [round]."""
    calls = calls_of(case, group)
    first_s = max(row[0] for row in group.exchange(bare_loop(case, calls, 1, group.barrier)))
    count = max(1, round(BLOCK_S / (calls * first_s)))
    bare = partial(bare_loop, case, calls, count, group.barrier)
    arms = {"bare": bare, "again": bare, "benchkit": partial(by_benchkit, case, calls, count, group, rank.index)}
    order, medians = random.Random(0), {name: [] for name in arms}
    for timed in arms.values():
        timed()  # warms up
    for _ in range(rounds):
        for name in order.sample(list(arms), len(arms)):
            medians[name].append(float(np.median(slowest_rank(group.exchange(arms[name]())))))
    return medians


def instead_of(sound: Suite, config: Any, rank: Rank) -> list[Case]:
    """Compares the first, the middle and the last of a suite's cases; reports none."""
    from benchkit.rank.control_group import Group

    cases = [case for case in sound.build(config, rank) if not (case.skip or case.unavailable)]
    group = Group(None, rank.world_size)
    for index in sorted({0, len(cases) // 2, len(cases) - 1}):
        case = cases[index]
        case.verify()
        found = {"labels": dict(case.labels), "arms": compare(case, group, rank, int(os.environ[ROUNDS]))}
        if rank.index == 0:
            with Path(os.environ[OUTPUT]).open("a") as file:
                file.write(json.dumps(found) + "\n")
    return [Case(skip="compared with a bare loop")]


for suite in list(SUITES.values()):
    if suite.build.__module__.startswith("benchkit.suites."):
        SUITES[suite.name] = replace(suite, build=partial(instead_of, suite))
