"""`python -m analysis predict DIR... --world-size N,N` predicts collectives on more ranks."""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.records.derive import usable_processes
from analysis.records.harvest import harvest
from analysis.records.paths import require_there
from analysis.shared.text import command, complain, with_interval
from analysis.shared.text_table import table_of
from analysis.suites.collective.algorithms import AlgorithmFit, Times, fit_algorithms
from analysis.suites.collective.table import CollectiveTimes, groups_of
from analysis.table.combine import combine
from benchkit.errors import ConfigError
from benchkit.record.naming import format_bytes

warn = partial(complain, "analysis predict")
NOTE = (
    "Predicted, not measured, of calls back to back: latency and time per byte of one message, as\n"
    "each algorithm's cost (Thakur, Rabenseifner and Gropp, 2005) explains the measured times,\n"
    "put into that cost for more ranks. The network\n"
    "is taken to be as here between all of them. "
    "In brackets: the 95 % interval, if that is the algorithm. misses:\n"
    "how far the algorithm is from the measured times at worst. send_recv: one way.\n"
)
MOST_RANKS = 10**9


@dataclass(frozen=True)
class Model:
    """What explains the measured times of one collective, by number of ranks."""

    collective: str
    times: Times
    messages: list[AlgorithmFit]

    @property
    def sizes(self) -> list[float]:
        return sorted({size for points in self.times.values() for size, _ in points})

    @property
    def rivals(self) -> list[AlgorithmFit]:
        """The algorithms that the measured times do not tell apart."""
        return [message for message in self.messages if message.is_plausible]


def models_of(series: list[CollectiveTimes]) -> list[Model]:
    """Make a model of each collective that ran on several ranks and whose algorithms are known."""
    found = []
    for name in dict.fromkeys(line.collective for line in series):
        times: dict[int, list[tuple[float, float]]] = {}
        for line in series:
            if line.collective == name and line.world_size > 1:
                times[line.world_size] = list(zip(line.sizes, line.times_s, strict=True))
        if times and (known := fit_algorithms(name, times)):
            found.append(Model(name, times, known))
    return found


def rows_of(model: Model, world_sizes: list[int]) -> Iterator[dict[str, object]]:
    """Yield a row per algorithm and size, and per size one over all algorithms in question."""
    lines: list[tuple[str, float | None, Callable[[int, float], str]]] = [
        (message.algorithm, 100 * message.max_error, partial(in_ms, model, message))
        for message in model.messages
    ]
    if len(model.rivals) > 1:
        lines.append((f"any of the first {len(model.rivals)}", None, partial(span, model)))
    for algorithm, misses, cell in lines:
        for size in some_of(model.sizes):
            yield {
                "collective": model.collective,
                "measured on": "/".join(map(str, model.times)),
                "algorithm": algorithm,
                "misses [%]": misses,
                "payload": format_bytes(size),
                **{f"{n} ranks, predicted [ms]": cell(n, size) for n in world_sizes},
            }


def in_ms(model: Model, message: AlgorithmFit, world_size: int, size: float) -> str:
    """Format the prediction and its interval: "4.5 [4.1, 4.9]"."""
    value = message.seconds(model.collective, world_size, size)
    ends = message.interval(model.collective, world_size, size) or (0.0, math.inf)
    return with_interval(*(1e3 * seconds for seconds in (value, *ends)))


def span(model: Model, world_size: int, size: float) -> str:
    """Format the least and the most that the algorithms in question predict: "4.5 to 27"."""
    values = [1e3 * message.seconds(model.collective, world_size, size) for message in model.rivals]
    return f"{min(values):.4g} to {max(values):.4g}"


def remarks(model: Model, world_sizes: list[int]) -> Iterator[str]:
    """Yield what the table does not show: rival algorithms, contradictions to measurements."""
    if len(model.rivals) > 1:
        names = ", ".join(message.algorithm for message in model.rivals)
        times = "measured times"
        if len(model.times) == 1:
            times = f"times on {next(iter(model.times))} ranks alone"
        yield (
            f"{model.collective}: the {times} do not distinguish {names}; their order says nothing."
        )
    for message in model.messages:
        if (found := contradiction(model, message, world_sizes)) is not None:
            yield f"{model.collective}, {message.algorithm}: {found}"


def contradiction(model: Model, message: AlgorithmFit, world_sizes: list[int]) -> str | None:
    """Describe the worst prediction whose whole interval is below what fewer ranks took."""
    worst, found = 1.0, None
    points = [(n, size, time) for n, pairs in model.times.items() for size, time in pairs]
    for n, size, time in points:
        here = message.seconds(model.collective, n, size)
        for more in (count for count in world_sizes if count > n):
            there = message.seconds(model.collective, more, size)
            _, most = message.interval(model.collective, more, size) or (0.0, math.inf)
            # A shorter time is no contradiction where more ranks cost the same.
            if there > here and most < time and there / time < worst:
                worst = there / time
                found = (
                    f"{1e3 * there:.4g} ms predicted for {format_bytes(size)} on {more} ranks, "
                    f"but {n} ranks took {1e3 * time:.4g} ms; do not rely on it."
                )
    return found


def some_of(sizes: list[float]) -> list[float]:
    """Return the smallest, the middle and the largest."""
    return sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})


@command("analysis predict")
def main(arguments: list[str]) -> int:
    """Print a table of predictions for each group of comparable records.

    The exit code is 1 where nothing can be predicted, 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    require_there(options.places)
    wrong = [number for number in options.world_size if not 2 <= number <= MOST_RANKS]
    if wrong:
        allowed = f"allowed are numbers >= 2, up to {MOST_RANKS}"
        raise ConfigError(f"--world-size {wrong[0]}: {allowed}")
    found = harvest(options.places, usable_processes())
    for line in found.remarks():
        warn(line)
    groups = groups_of(combine(found.rows)) if found.rows else []
    if not groups:
        places = ", ".join(map(str, options.places))
        warn(
            f"no collective in three sizes or more at or below {places}; "
            "run `python -m benchkit sweep=latency` first"
        )
        return 1
    print(NOTE)
    for suffix, series in groups:
        print_predictions(suffix.lstrip("_"), series, options.world_size)
    return 0


def print_predictions(title: str, series: list[CollectiveTimes], world_sizes: list[int]) -> None:
    models = models_of(series)
    table = pd.DataFrame([row for model in models for row in rows_of(model, world_sizes)])
    lines = [f"- {line}" for model in models for line in remarks(model, world_sizes)]
    if title:
        print(title)
    print(table_of(table).text(), end="\n\n")
    if lines:
        print(*lines, sep="\n", end="\n\n")


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis predict",
        description="`benchkit-analysis predict DIR... --world-size N,N`: times on numbers of "
        "ranks that were not measured, predicted.",
    )
    result.add_argument(
        "places",
        metavar="DIR",
        nargs="+",
        type=Path,
        help="folders of records of suite collective",
    )
    result.add_argument(
        "--world-size",
        type=numbers,
        required=True,
        metavar="N,N,...",
        help="numbers of ranks to predict for",
    )
    return result
