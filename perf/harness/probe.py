"""Suites whose ranks look at their clocks and compare benchkit with a bare loop, for one case each.

`BENCHKIT_SUITES=perf.harness.probe python -m benchkit …` puts one in place of each suite of
benchkit; the single case of each reports a `Report` as its details.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from benchkit.api.case import Case, Rank
from benchkit.api.lut import SIZE
from benchkit.api.registry import Suite, own_modules, suites_in
from benchkit.rank.backends import ControlGroup
from benchkit.selftest.runs import MATRIX

from perf.harness import SECONDS, Report, clock, perturbation

ROUNDS = 20


def chosen(cases: Sequence[Case]) -> Case:
    """Returns the case of MATRIX, or the last one."""
    return next((case for case in cases if case.labels.get(SIZE) == MATRIX), cases[-1])


def finished(step: Callable[[], object]) -> None:
    """Makes a call on a GPU and waits for its end, as the host's clock needs it."""
    import torch

    step()
    torch.cuda.synchronize()


def probe(sound: Suite, config: Any, rank: Rank) -> list[Case]:
    """Returns one case, which reports what the ranks found on one of a suite's cases."""
    runnable = [case for case in sound.build(config, rank) if not (case.skip or case.unavailable)]
    case = chosen(runnable)
    if rank.device.type == "cuda":
        case = replace(case, step=partial(finished, case.step))
    case.verify(case.call_once)
    handle = None if config.backend.name == "gloo" else rank.group("gloo")
    ranks = ControlGroup(handle, rank.world_size)
    low_s, high_s = clock.offset_bounds(*clock.note_exchanges(ranks.all_gather))
    block_s = float(os.environ[SECONDS]) / ROUNDS / 2
    arms = perturbation.compare(case, ranks, rank.index, ROUNDS, block_s)
    what = " ".join([config.title(), *map(str, case.labels.values())])
    report = Report(what, low_s, high_s, arms["bare"], arms["benchkit"])
    return [Case(details=lambda: asdict(report))]


globals().update(
    {name: replace(sound, build=partial(probe, sound)) for name, sound in suites_in(own_modules()).items()}
)
