"""Suites whose ranks time each case by a bare loop and by benchkit, interleaved, instead of reporting it.

`BENCHKIT_SUITES=perf.bare python -m benchkit …` puts one in place of each suite; every rank 0 appends a line of JSON
per case to the file that BARE_OUTPUT names. See perf/fidelity.py.
"""

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchkit.api.case import Case, Rank
from benchkit.api.registry import Suite, own_modules, suites_in

from perf.harness.perturbation import compare

OUTPUT, ROUNDS = "BARE_OUTPUT", "BARE_ROUNDS"
BLOCK_S = 0.1
"""Length of one block of an arm."""


def instead_of(sound: Suite, config: Any, rank: Rank) -> list[Case]:
    """Compare the first, the middle and the last of a suite's cases; report none."""
    from benchkit.rank.backends import ControlGroup

    cases = [case for case in sound.build(config, rank) if not (case.skip or case.unavailable)]
    group, rounds = ControlGroup(None, rank.world_size), int(os.environ[ROUNDS])
    for index in sorted({0, len(cases) // 2, len(cases) - 1}):
        case = cases[index]
        case.verify(case.call_once)
        found = {"labels": dict(case.labels), "arms": compare(case, group, rank.index, rounds, BLOCK_S, again=True)}
        if rank.index == 0:
            with Path(os.environ[OUTPUT]).open("a") as file:
                file.write(json.dumps(found) + "\n")
    return [Case(skip="compared with a bare loop")]


globals().update(
    {name: replace(sound, build=partial(instead_of, sound)) for name, sound in suites_in(own_modules()).items()}
)
