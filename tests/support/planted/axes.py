"""Settings of planted points, and a covering array of them: every pair, or triple, of values in some combination."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.cli import ROOT

SMALLEST = "smallest_"
SUITES = [path.stem.removeprefix(SMALLEST) for path in sorted((ROOT / "tests/conf/suite").glob(f"{SMALLEST}*.yaml"))]
AXES: dict[str, list[Any]] = {
    "suite": SUITES,
    "variant": ["first", "second", "third"],
    "mode": ["per_iteration", "loop", "cold", "graph"],
    "calls": [1, 4, "auto"],
    "ranks": [2, 3, 1],
    "device": ["cpu", "cuda"],
    "hosts": ["one", "two", "two rough"],
    "repeat": [1, 3],
    "processes": ["fresh", "reuse"],
    "alone": ["never", "always"],
    "slowdown": ["none", "last", "first"],
    "noise": ["constant", "jitter", "outliers", "bimodal", "drift"],
    "slow_rank": [1.0, 1.3],
    "skew": [0.0, 3e-5, 5e-3],
    "samples": [7, 1, 24],
    "stop": ["fixed", "adaptive"],
    "launch": ["short", "long"],
    "cold_l2": ["false", "true"],
}
"""Each axis with its values, the default one first. What the variants of a suite are says combinations.py."""
Combination = dict[str, Any]
"""A value of every axis, or of some."""


@dataclass(frozen=True)
class Exclusion:
    """Values that do not go together.

    Attributes:
        values: by axis.
        why: of a combination that the world cannot play, or in which nothing is timed; "" where the check refuses it.
    """

    values: Mapping[str, Sequence[Any]]
    why: str = ""

    def holds(self, chosen: Combination) -> bool:
        return all(axis in chosen and chosen[axis] in values for axis, values in self.values.items())


CAPTURED = ("collective", "matmul_lut", "tp_columnwise", "tp_rowwise")
NOT_CAPTURED = [suite for suite in SUITES if suite not in CAPTURED]
EXCLUDED = [
    Exclusion({"mode": ["per_iteration", "cold"], "calls": [4, "auto"]}),
    Exclusion({"mode": ["cold"], "processes": ["reuse"]}),
    Exclusion({"processes": ["reuse"], "repeat": [3]}),
    Exclusion({"suite": ["rank_speed"], "calls": [4, "auto"]}),
    Exclusion({"suite": ["collective"], "mode": ["graph"], "calls": [4, "auto"]}),
    Exclusion({"cold_l2": ["true"], "device": ["cpu"]}),
    Exclusion({"cold_l2": ["true"], "calls": [4, "auto"]}),
    Exclusion({"cold_l2": ["true"], "suite": ["rank_speed"], "mode": ["per_iteration", "loop"]}),
    Exclusion({"cold_l2": ["true"], "suite": ["collective"], "mode": ["per_iteration", "graph"]}),
    Exclusion({"cold_l2": ["true"], "suite": ["pair_matrix"], "mode": ["per_iteration"]}),
    Exclusion({"mode": ["graph"], "device": ["cpu"]}, "no case can be captured"),
    Exclusion({"mode": ["graph"], "suite": NOT_CAPTURED}, "no case can be captured"),
    Exclusion({"ranks": [1], "suite": ["collective", "pair_matrix"]}, "no case runs on one rank"),
    Exclusion({"ranks": [1], "suite": ["transformer"], "variant": ["first", "second"]}),
    Exclusion({"ranks": [1], "hosts": ["two", "two rough"]}, "the second host has no rank"),
    Exclusion({"ranks": [1], "slowdown": ["first"]}, "the first rank is the last one"),
    Exclusion({"device": ["cuda"], "slowdown": ["last", "first"]}, "there is no MPS"),
    Exclusion({"device": ["cpu"], "launch": ["long"]}, "a CPU has no launches"),
]


def allowed(chosen: Combination) -> bool:
    """Whether a combination, of all axes or of some, can be measured."""
    return not any(exclusion.holds(chosen) for exclusion in EXCLUDED)


BY_AXIS = {axis: [exclusion for exclusion in EXCLUDED if axis in exclusion.values] for axis in AXES}


def goes_with(row: Combination, axis: str, value: Any) -> bool:
    """Whether an allowed combination stays so with one value more."""
    of_value = (exclusion for exclusion in BY_AXIS[axis] if value in exclusion.values[axis])
    return not any(exclusion.holds({**row, axis: value}) for exclusion in of_value)


@cache
def covering(strength: int, tries: int = 30) -> list[Combination]:
    """Combinations that hold every set of `strength` values that goes together; always the same ones.

    Greedy, as AETG (Cohen et al. 1997): of `tries` random rows that hold a set which is left, the one that holds most.
    """
    draw = random.Random(strength)
    names = list(AXES)
    left = dict.fromkeys(sets_of_values(strength))
    found = []
    while left:
        first = next(iter(left))
        rows = [row for row in (completed(dict(first), draw, names) for _ in range(tries)) if row]
        if not rows:
            del left[first]  # a third axis forbids it
            continue
        best = max(rows, key=lambda row: sum(each in left for each in itertools.combinations(row.items(), strength)))
        for each in itertools.combinations(best.items(), strength):
            left.pop(each, None)
        found.append(best)
    return found


def sets_of_values(strength: int) -> Iterator[tuple[tuple[str, Any], ...]]:
    for axes in itertools.combinations(AXES, strength):
        for values in itertools.product(*(AXES[axis] for axis in axes)):
            chosen = tuple(zip(axes, values, strict=True))
            if allowed(dict(chosen)):
                yield chosen


def completed(row: Combination, draw: random.Random, names: Sequence[str]) -> Combination | None:
    """A combination with values for all other axes; None where none is left for one of them."""
    for name in draw.sample(names, len(names)):
        if name not in row:
            values = [value for value in AXES[name] if goes_with(row, name, value)]
            if not values:
                return None
            row[name] = draw.choice(values)
    return {name: row[name] for name in names}
