"""Problems whose truth is known, and the records and tables that a sweep would leave of them.

A cell says how variants were measured, how their times vary, how many times as fast the fastest is, and in how many
rounds and runs. Each of its problems is drawn anew. Imports nothing of benchkit but what reads records.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from analysis.records.derive import derive_result
from analysis.records.harvest import Harvest
from analysis.records.paths import run_of
from analysis.table.combine import ROUNDS, combine

from tests.support.records import as_record, having, make_record

Array = npt.NDArray[np.float64]
Random = np.random.Generator
SUITE = "planted"
"""Of which benchkit knows no question: it compares what a job names, else backends."""
BASE_S = 1e-3

# Layouts


@dataclass(frozen=True)
class Layout:
    """How the variants of a problem were measured.

    Attributes:
        names: of the variants; the first is the baseline.
        is_interleaved: in the rounds of one job; else each in a point of its own, by its backend.
        hosts: on which; each is a problem of its own, on the second one the other way round.
        sweeps: by variant, where these share no run.
    """

    names: tuple[str, ...]
    is_interleaved: bool = True
    hosts: tuple[str, ...] = ("here",)
    sweeps: tuple[str, ...] = ()

    def speeds(self, factor: float, problems: int) -> Array:
        """How many times as fast as the slowest each variant is: [problem, variant].

        Of two each is the fastest in turn, of three one or two are, of eight one.
        """
        num = len(self.names)
        first = np.arange(problems) % num
        is_fast = np.arange(num) == first[:, None]
        if num == 3:
            is_fast ^= (np.arange(problems) % 2 == 1)[:, None]
        return np.where(is_fast, factor, 1.0)


BACKENDS = ("gloo", "mpi")
LAYOUTS: Mapping[str, Layout] = {
    "two": Layout(("a", "b")),
    "three": Layout(("a", "b", "c")),
    "eight": Layout(tuple("abcdefgh")),
    "apart": Layout(BACKENDS, is_interleaved=False),
    "two hosts": Layout(BACKENDS, is_interleaved=False, hosts=("fast", "slow")),
    "two sweeps": Layout(BACKENDS, is_interleaved=False, sweeps=("monday", "tuesday")),
}
SLOW_HOST = 100
"""How many times as long the second host takes: no baseline of the other host could be overlooked."""
PROCESSORS = ("an EPYC", "an Atom")

# Noise: logarithms of what is peculiar to a run, and of what differs from round to round without a cause.

DRIFT, STICKS = 0.1, 0.9
"""Standard deviation of a drift, and the correlation of neighbouring rounds."""
SMALL, HEAVY, MOST_TAIL = 0.03, 0.05, 10.0
RUNS_DIFFER = 0.05
SPIKES, SPIKE = 0.01, 10.0


@dataclass(frozen=True)
class Shape:
    """Of the times of a cell: [problem, run, variant, round]; `is_shared` by variants that are interleaved."""

    problems: int
    runs: int
    variants: int
    rounds: int
    is_shared: bool

    @property
    def whole(self) -> tuple[int, int, int, int]:
        return self.problems, self.runs, self.variants, self.rounds


def normal(spread: float) -> Any:
    """Independent noise without anything peculiar to a run."""
    return lambda random, shape: (np.zeros(shape.whole), spread * random.standard_normal(shape.whole))


def heavy_tails(random: Random, shape: Shape) -> tuple[Array, Array]:
    """Student's t of two degrees of freedom, whose variance is infinite."""
    tails = HEAVY * random.standard_t(2, shape.whole)
    return np.zeros(shape.whole), tails.clip(-MOST_TAIL, MOST_TAIL)  # longer ones are no seconds


def shared_drift(random: Random, shape: Shape) -> tuple[Array, Array]:
    """A drift of the machine: points that were measured apart have it one after the other."""
    problems, runs, variants, rounds = shape.whole
    length = rounds if shape.is_shared else variants * rounds
    drift = wandering(random, (problems, runs), length)
    if shape.is_shared:
        drift = np.repeat(drift[:, :, None], variants, axis=2)
    return drift.reshape(shape.whole), SMALL * random.standard_normal(shape.whole)


def own_drift(random: Random, shape: Shape) -> tuple[Array, Array]:
    drift = wandering(random, shape.whole[:-1], shape.rounds)
    return drift, SMALL * random.standard_normal(shape.whole)


def wandering(random: Random, shape: tuple[int, ...], length: int) -> Array:
    """Autoregressive series from their stationary distribution: [..., length]."""
    steps = DRIFT * random.standard_normal((*shape, length))
    for place in range(1, length):
        steps[..., place] = STICKS * steps[..., place - 1] + np.sqrt(1 - STICKS**2) * steps[..., place]
    return steps


def runs_differ(random: Random, shape: Shape) -> tuple[Array, Array]:
    """Each case has a level of its own in each run, as fresh ranks have."""
    level = RUNS_DIFFER * random.standard_normal((*shape.whole[:-1], 1))
    return np.broadcast_to(level, shape.whole), SMALL * random.standard_normal(shape.whole)


def spikes(random: Random, shape: Shape) -> tuple[Array, Array]:
    noise = SMALL * random.standard_normal(shape.whole)
    return np.zeros(shape.whole), noise + np.log(SPIKE) * (random.random(shape.whole) < SPIKES)


NOISES = {
    "10 %": normal(0.10), "5 %": normal(0.05), "heavy tails": heavy_tails, "shared drift": shared_drift,
    "own drift": own_drift, "runs differ by 5 %": runs_differ, "spikes of 1 % x 10": spikes,
}  # fmt: skip
FACTORS = (1.0, 1.03, 1.1, 1.3, 2.0, 10.0)
ROUNDS_TAKEN = (1, 2, 3, 5, 6, 8, 10, 12, 20, 50)
RUNS_TAKEN = (1, 2, 3, 6, 8)


@dataclass(frozen=True)
class Cell:
    """Keys of LAYOUTS and NOISES, how many times as fast the fastest variant is, and numbers of rounds and runs."""

    layout: str
    noise: str
    factor: float = 1.0
    rounds: int = 12
    runs: int = 1

    def __str__(self) -> str:
        return f"{self.layout}, {self.noise}, {self.factor:g} x, {self.rounds} rounds, {self.runs} runs"


@dataclass(frozen=True)
class Planted:
    """The problems of a cell.

    Attributes:
        speeds: how many times as fast as the slowest each variant is in the long run: [problem, variant].
        levels: logarithms of times without noise: [problem, run, variant, round].
        times_s: with noise.
    """

    cell: Cell
    speeds: Array
    levels: Array
    times_s: Array

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.cell.layout]

    @property
    def num_problems(self) -> int:
        return len(self.speeds)

    @cached_property
    def truth(self) -> Array:
        """Logarithms of how fast variants are, of what claims are about: [problem, variant].

        Of a single run these are the planted levels in that very run, and all that is peculiar to it is part of them;
        of several runs it is the long run.
        """
        if self.cell.runs > 1:
            return np.log(self.speeds)
        return -np.median(self.levels[:, 0], axis=-1)


def plant(cell: Cell, problems: int, seed: int = 0) -> Planted:
    layout = LAYOUTS[cell.layout]
    random = np.random.default_rng([seed, *map(ord, str(cell))])
    shape = Shape(problems, cell.runs, len(layout.names), cell.rounds, layout.is_interleaved)
    speeds = layout.speeds(cell.factor, problems)
    peculiar, noise = NOISES[cell.noise](random, shape)
    slower = np.where(np.arange(problems) % len(layout.hosts), SLOW_HOST, 1)
    levels = np.log(BASE_S * slower[:, None] / speeds)[:, None, :, None] + peculiar
    return Planted(cell, speeds, levels, np.exp(levels + noise))


# Records and tables


def setting_of(layout: Layout, problem: int) -> tuple[int, int]:
    """The value of the key `n` and the number of the host of a problem."""
    return divmod(problem, len(layout.hosts))


def problem_of(layout: Layout, row: Mapping[str, Any]) -> int:
    return int(row["n"]) * len(layout.hosts) + layout.hosts.index(row["host"])


def records_of(planted: Planted, problems: int | None = None, suite: str = SUITE) -> Iterator[dict[str, Any]]:
    """The records of some problems, the first ones, in the order of time; each has a sample a round."""
    layout = planted.layout
    number = 0
    for run in range(planted.cell.runs):
        for problem in range(planted.num_problems if problems is None else problems):
            cases = [case_of(planted, run, problem, variant) for variant in range(len(layout.names))]
            groups = [cases] if layout.is_interleaved else [[case] for case in cases]
            for variant, group in enumerate(groups):
                yield record_of(planted, suite, run, problem, variant, group, number)
                number += 1


def case_of(planted: Planted, run: int, problem: int, variant: int) -> dict[str, Any]:
    [case] = make_record(samples=2)["cases"]
    times, layout = planted.times_s[problem, run, variant], planted.layout
    labels = {"strategy": layout.names[variant]} if layout.is_interleaved else {}
    return case | {
        "labels": labels, "samples_s": [times.tolist()] * 2, "start_offsets_s": [[0.0] * len(times)] * 2,
        "blocks": [1] * len(times), "elapsed_s": float(times.sum()), "payload_bytes": None, "bus_factor": None,
        "baseline": 0 if variant and layout.is_interleaved else None,
    }  # fmt: skip


def record_of(
    planted: Planted, suite: str, run: int, problem: int, variant: int, cases: list[dict[str, Any]], number: int
) -> dict[str, Any]:
    layout = planted.layout
    n, host = setting_of(layout, problem)
    backend = "gloo" if layout.is_interleaved else layout.names[variant]
    made = make_record(backend=backend, samples=2, suite=suite)
    config = {name: made["config"][name] for name in made["config"] if name not in ("data_size", "dtype", "reduce_op")}
    made |= {
        "config": config | {"suite": suite, "n": n}, "cases": cases, "point_id": f"{backend} {problem}",
        "started_at": started_at(run, number), "finished_at": started_at(LAST_DAY, number), "repetition": run,
        "sweep": layout.sweeps[variant] if layout.sweeps else "sweep", "path": f"{run}/{problem}/{variant}",
    }  # fmt: skip
    return having(made, host=layout.hosts[host], cpu=PROCESSORS[host])


LAST_DAY = 30


def started_at(run: int, number: int) -> str:
    """A day per run, a second per record."""
    hours, minutes = divmod(number // 60, 60)
    return f"2026-01-{1 + run:02}T{hours:02}:{minutes:02}:{number % 60:02}.000+00:00"


def tabulate(records: Iterator[dict[str, Any]]) -> pd.DataFrame:
    """Their combined table; `sweep` and `path` in a record say where it was found."""
    found = Harvest()
    for content in records:
        figures = derive_result(as_record(content))
        found.add(figures, content["path"], run_of(content["sweep"], figures.repetition))
    return combine(found.rows)


def table_of(planted: Planted) -> pd.DataFrame:
    """The table of all problems: the rows of one, again and again, with the times of each.

    Other figures than the medians, and than those of rounds, are of the first problem.
    """
    layout, (problems, runs, variants, _) = planted.layout, planted.times_s.shape
    hosts = len(layout.hosts)
    rows = tabulate(records_of(single_run(planted), hosts))
    rows = rows.iloc[np.tile(np.arange(len(rows)), runs * problems // hosts)].reset_index(drop=True)
    run, problem, variant = (each.ravel() for each in np.indices((runs, problems, variants)))
    point = np.zeros_like(variant) if layout.is_interleaved else variant
    times = planted.times_s.transpose(1, 0, 2, 3).reshape(len(rows), -1)
    places = list(zip(run, problem, point, strict=True))
    numbers = problem if layout.is_interleaved else problem * variants + point
    sweeps = [layout.sweeps[each] if layout.sweeps else "sweep" for each in variant]
    return rows.assign(**{
        "n": problem // hosts, "median_s": np.median(times, axis=1), "path": ["/".join(map(str, at)) for at in places],
        "run": list(map(run_of, sweeps, run)), "started_at": list(map(started_at, run, numbers)),
        ROUNDS: [each.tobytes() if layout.is_interleaved else b"" for each in times],
    })  # fmt: skip


def single_run(planted: Planted) -> Planted:
    cell = Cell(planted.cell.layout, planted.cell.noise, planted.cell.factor, planted.cell.rounds)
    return Planted(cell, planted.speeds, planted.levels[:, :1], planted.times_s[:, :1])
