"""Deliberate breakages of benchkit, each of which some combination of a small selection must show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from analysis.records import doubts, metrics
from benchkit.measure import clocks, sampler, timer
from benchkit.rank import run_cases, throttle
from benchkit.statistics import samples, summary

from tests.support.planted.axes import AXES, Combination

DEFAULTS: Combination = {axis: values[0] for axis, values in AXES.items()} | {"noise": "jitter", "samples": 24}
SELECTION: list[Combination] = [
    DEFAULTS | changes
    for changes in (
        {"suite": "collective", "mode": "loop", "hosts": "two"},
        {"suite": "auto_shard", "alone": "always", "hosts": "two"},
        {"suite": "ring_attention", "slowdown": "last"},
        {"suite": "ring_attention", "slowdown": "last", "ranks": 3, "slow_rank": 1.3, "skew": 5e-3},
        {"suite": "matmul_lut", "mode": "loop", "calls": 4},
        {"suite": "transformer", "slow_rank": 1.3, "noise": "constant"},
        {"suite": "collective", "hosts": "two rough", "mode": "loop"},
        {"suite": "tp_rowwise", "slowdown": "first", "mode": "loop", "calls": 4},
        {"suite": "matmul_lut", "device": "cuda", "launch": "long"},
        {"suite": "transformer", "variant": "third", "device": "cuda", "launch": "long"},
    )
]


@dataclass(frozen=True)
class Mutant:
    """One attribute of benchkit, and what makes its broken value of the sound one."""

    owner: Any
    name: str
    broken: Callable[[Any], Any]

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(self.owner, self.name, self.broken(getattr(self.owner, self.name)))


def undivided(sound: Callable[..., Any]) -> Callable[..., Any]:
    def sample(self: Any, case: Any, calls: int, count: int, delay_s: float | None) -> Any:
        durations, starts, regions = sound(self, case, calls, count, delay_s)
        return [seconds * calls for seconds in durations], starts, regions

    return sample


def keeping_warm_up(sound: Callable[..., Any]) -> Callable[..., Any]:
    def warm_up(self: Any, case: Any, measurement: Any) -> None:
        sound(self, case, measurement)
        if firsts := [row[:1] for row in measurement.warmup_s]:
            none = [[0.0] for _ in firsts]
            measurement.add(firsts, none, dict.fromkeys(self.sampler.region_names(case), none))

    return warm_up


def fastest(rows: Any) -> Any:
    return np.asarray(rows, dtype=float).min(axis=0)


def none(_: Any) -> Callable[..., None]:
    return lambda *_: None


MUTANTS = {
    "the mean over ranks": Mutant(
        samples, "slowest_rank", lambda f: lambda rows: np.asarray(rows, dtype=float).mean(axis=0)
    ),
    "ratios leave out useful work": Mutant(summary.Estimate, "scaled", lambda f: lambda ratio, more_work: ratio),
    "microseconds are stored": Mutant(
        run_cases, "round_to_nanoseconds", lambda f: lambda rows: [[round(value, 6) for value in row] for row in rows]
    ),
    "samples are not divided by their calls": Mutant(sampler.Sampler, "sample", undivided),
    "a sample of the warm-up counts": Mutant(timer.Timer, "warm_up", keeping_warm_up),
    "the offset of a clock has the wrong sign": Mutant(
        clocks.HostClock, "__init__", lambda f: lambda self, shift: f(self, lambda start: -shift(start))
    ),
    "a slowdown is never lifted": Mutant(throttle.ThrottleController, "release", none),
    "a slowdown is never applied": Mutant(throttle.ThrottleController, "apply", none),
    "p95 is p90": Mutant(
        summary, "quantile", lambda f: lambda ordered, share: f(ordered, 0.9 if share == 0.95 else share)
    ),
    "times alone are those of the first case": Mutant(
        doubts, "median_of_same_case", lambda f: lambda cases, case: f(cases[:1], cases[0]) if cases else None
    ),
    "a median is a mean": Mutant(samples, "median", lambda f: lambda values: float(np.mean(values))),
    "communication takes longer": Mutant(
        metrics, "median_of", lambda f: lambda case: f(case) * (1.02 if case.is_component else 1.0)
    ),
    "regions are those of the fastest rank": Mutant(metrics, "slowest_rank", lambda f: fastest),
    "no delay hides launches": Mutant(sampler, "delay_for", lambda f: lambda queueing_s: 0.0),
    "a delay hides launches that count": Mutant(sampler.LaunchDelay, "never", lambda f: sampler.LaunchDelay),
    "no clock is too uncertain": Mutant(samples, "MAX_START_UNCERTAINTY", lambda f: 1e9),
}
"""By what is wrong then."""
