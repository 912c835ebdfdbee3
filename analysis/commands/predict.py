"""`python -m analysis predict DIR... --world-size N,N`: times on numbers of ranks that were not measured, predicted."""

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.records.harvest import harvest, missing
from analysis.suites.collective.fit import Message, Times, messages
from analysis.suites.collective.table import Series, groups_of
from analysis.table import combine
from analysis.text import readable, render_table

NOTE = (
    "Predicted, not measured, of calls back to back: latency and time per byte of one message, as\n"
    "each algorithm's cost (Thakur, Rabenseifner and Gropp, 2005) explains the measured times,\n"
    "put into that cost for more ranks. The network\n"
    "is taken to be as here between all of them. In brackets: the 95 % interval, if that is the algorithm. misses:\n"
    "how far the algorithm is from the measured times at worst. send_recv: one way.\n"
)

MOST_RANKS = 10**9


def main(arguments: list[str]) -> int:
    """Returns 0; 1 where nothing can be predicted; 2 for arguments that make no sense."""
    options = parser().parse_args(arguments)
    if why := missing(options.places):
        print(f"analysis predict: {why}", file=sys.stderr)
        return 2
    wrong = [number for number in options.world_size if not 2 <= number <= MOST_RANKS]
    if wrong:
        allowed = f"allowed are numbers >= 2, up to {MOST_RANKS}"
        print(f"analysis predict: --world-size {wrong[0]}: {allowed}", file=sys.stderr)
        return 2
    found = harvest(options.places)
    for line in found.remarks():
        print(f"analysis predict: {line}", file=sys.stderr)
    groups = groups_of(combine(found.rows)) if found.rows else []
    if not groups:
        places = ", ".join(map(str, options.places))
        print(
            f"analysis predict: no collective in three sizes or more at or below {places}; "
            "run `python -m benchkit sweep=latency` first",
            file=sys.stderr,
        )
        return 1
    print(NOTE)
    for suffix, series in groups:
        models = models_of(series)
        table = pd.DataFrame(
            [row for model in models for row in rows_of(model, options.world_size)]
        )
        told = [line for model in models for line in remarks(model, options.world_size)]
        print(
            *([suffix.lstrip("_")] if suffix else []),
            render_table(table, "simple"),
            sep="\n",
            end="\n\n",
        )
        print(*(f"- {line}" for line in told), sep="\n", end="\n\n" if told else "")
    return 0


@dataclass(frozen=True)
class Model:
    """One collective: what was measured, by number of ranks, and how each algorithm explains it."""

    collective: str
    times: Times
    messages: list[Message]

    @property
    def sizes(self) -> list[float]:
        return sorted({size for each in self.times.values() for size, _ in each})

    @property
    def rivals(self) -> list[Message]:
        """The algorithms that the measured times do not tell apart."""
        return [message for message in self.messages if message.likely]


def models_of(series: list[Series]) -> list[Model]:
    """One per collective that was measured on several ranks and whose algorithms are known."""
    found = []
    for name in dict.fromkeys(each.collective for each in series):
        measured = {
            each.world_size: each
            for each in series
            if each.collective == name and each.world_size > 1
        }
        times = {
            n: list(zip(each.sizes, each.times_s, strict=True)) for n, each in measured.items()
        }
        if times and (known := messages(name, times)):
            found.append(Model(name, times, known))
    return found


def rows_of(model: Model, world_sizes: list[int]) -> Iterator[dict[str, object]]:
    """A row per algorithm and size, and per size one over all algorithms that may be the one."""
    for message in model.messages:
        for size in some_of(model.sizes):
            cells = [in_ms(model, message, n, size) for n in world_sizes]
            yield row(model, message.algorithm, 100 * message.off, size, world_sizes, cells)
    if len(model.rivals) > 1:
        for size in some_of(model.sizes):
            cells = [span(model, n, size) for n in world_sizes]
            yield row(
                model, f"any of the first {len(model.rivals)}", None, size, world_sizes, cells
            )


def row(
    model: Model,
    algorithm: str,
    misses: float | None,
    size: float,
    world_sizes: list[int],
    cells: list[str],
) -> dict[str, object]:
    return {
        "collective": model.collective,
        "measured on": "/".join(map(str, model.times)),
        "algorithm": algorithm,
        "misses [%]": misses,
        "payload": readable(size),
        **{f"{n} ranks, predicted [ms]": cell for n, cell in zip(world_sizes, cells, strict=True)},
    }


def in_ms(model: Model, message: Message, world_size: int, size: float) -> str:
    """ "4.5 [4.1, 4.9]": the prediction and its interval."""
    value = message.seconds(model.collective, world_size, size)
    low, high = message.interval(model.collective, world_size, size) or (0.0, math.inf)
    return f"{1e3 * value:.4g} [{1e3 * low:.3g}, {1e3 * high:.3g}]"


def span(model: Model, world_size: int, size: float) -> str:
    """ "4.5 to 27": from the least to the most that the algorithms in question predict."""
    values = [1e3 * message.seconds(model.collective, world_size, size) for message in model.rivals]
    return f"{min(values):.4g} to {max(values):.4g}"


def remarks(model: Model, world_sizes: list[int]) -> Iterator[str]:
    """What the table cannot be asked: which algorithm it is, and what contradicts the measurement."""
    if len(model.rivals) > 1:
        names = ", ".join(message.algorithm for message in model.rivals)
        least = (
            f"times on {next(iter(model.times))} ranks alone"
            if len(model.times) == 1
            else "measured times"
        )
        yield f"{model.collective}: the {least} do not tell {names} apart; their order says nothing."
    for message in model.messages:
        if (found := contradiction(model, message, world_sizes)) is not None:
            yield f"{model.collective}, {message.algorithm}: {found}"


def contradiction(model: Model, message: Message, world_sizes: list[int]) -> str | None:
    """Where all of a prediction's interval is below what fewer ranks took: the worst of it."""
    worst, told = 1.0, None
    for n, size, time in ((n, *point) for n, points in model.times.items() for point in points):
        here = message.seconds(model.collective, n, size)
        for more in (count for count in world_sizes if count > n):
            there = message.seconds(model.collective, more, size)
            _, most = message.interval(model.collective, more, size) or (0.0, math.inf)
            if (
                there > here and most < time and there / time < worst
            ):  # not where the cost is the same
                worst = there / time
                told = (
                    f"{1e3 * there:.4g} ms predicted for {readable(size)} on {more} ranks, "
                    f"but {n} ranks took {1e3 * time:.4g} ms; do not rely on it."
                )
    return told


def some_of(sizes: list[float]) -> list[float]:
    """The smallest, the middle and the largest."""
    return sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m analysis predict", description=__doc__)
    result.add_argument(
        "places", metavar="DIR", nargs="+", type=Path, help="folders of records of suite collective"
    )
    result.add_argument(
        "--world-size",
        type=numbers,
        required=True,
        metavar="N,N,...",
        help="numbers of ranks to predict for",
    )
    return result
