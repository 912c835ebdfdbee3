"""The suites collective and matmul_lut with slowed calls, which a comparison has to find.

    BENCHKIT_SUITES=perf.slowed SLOWED_BY=0.1 python -m benchkit +suite=matmul_lut …

SLOWED_BY is the share of its own time that each call waits after its end. SLOWED_TAIL is the share of calls that take
ten times as long; all ranks draw the same calls.
"""

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchkit.api.case import Case, Rank
from benchkit.api.registry import Suite
from benchkit.suites.collective import suite as collectives
from benchkit.suites.matmul_lut import suite as products

TAIL_FACTOR = 10


def slowed(step: Callable[[], Any]) -> Callable[[], Any]:
    """Add a busy wait to a call; without the variables the wait is empty."""
    share, tail = (float(os.environ.get(name, "0")) for name in ("SLOWED_BY", "SLOWED_TAIL"))
    drawn = random.Random(0)

    def call() -> Any:
        began = time.perf_counter()
        result = step()
        ended = time.perf_counter()
        wait = TAIL_FACTOR - 1 if drawn.random() < tail else share
        until = ended + wait * (ended - began)
        while time.perf_counter() < until:
            pass
        return result

    return call


def with_slow_calls(suite: Suite) -> Suite:
    def build(config: Any, rank: Rank) -> list[Case]:
        cases = suite.build(config, rank)
        for case in cases:
            object.__setattr__(case, "step", slowed(case.step))  # cases refer to each other, so no copies
        return cases

    return replace(suite, build=build)


collective = with_slow_calls(collectives.collective)
matmul_lut = with_slow_calls(products.matmul_lut)
