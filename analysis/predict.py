"""`python -m analysis predict DIR... --world-size N,N`: times on numbers of ranks that were not measured, predicted."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis.harvest import harvest, missing
from analysis.link import Message, messages
from analysis.table import combine, laid_out, readable
from analysis.tables.link import Series, groups_of

NOTE = (
    "Predicted, not measured: latency and time per byte of one message, as each algorithm's cost (Thakur,\n"
    "Rabenseifner and Gropp, 2005) explains the measured times, put into that cost for more ranks. The network\n"
    "is taken to be as here between all of them. misses: how far the algorithm is from the measured times at\n"
    "worst; of one number of ranks all explain the same. send_recv: one way.\n"
)


def main(arguments: list[str]) -> int:
    """Returns 0; 1 where nothing can be predicted; 2 for arguments that make no sense."""
    options = parser().parse_args(arguments)
    if why := missing(options.places):
        print(f"analysis predict: {why}", file=sys.stderr)
        return 2
    if min(options.world_size) < 2:
        print(f"analysis predict: --world-size {min(options.world_size)}: allowed are numbers >= 2", file=sys.stderr)
        return 2
    rows = harvest(options.places).rows
    groups = groups_of(combine(rows)) if rows else []
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
        table = pd.DataFrame(list(predictions(series, options.world_size)))
        print(*([suffix.lstrip("_")] if suffix else []), laid_out(table, "simple"), sep="\n", end="\n\n")
    return 0


def predictions(series: list[Series], world_sizes: list[int]) -> Iterator[dict[str, object]]:
    """A row per collective, algorithm and size; the algorithm that explains the measured best comes first."""
    for name in dict.fromkeys(each.collective for each in series):
        measured = {each.world_size: each for each in series if each.collective == name and each.world_size > 1}
        if not measured:
            continue
        sizes = sorted({size for each in measured.values() for size in each.sizes})
        times = {n: list(zip(each.sizes, each.times_s, strict=True)) for n, each in measured.items()}
        for message in messages(name, times):
            for size in some_of(sizes):
                yield row(name, message, size, list(measured), world_sizes)


def row(name: str, message: Message, size: float, measured: list[int], world_sizes: list[int]) -> dict[str, object]:
    return {
        "collective": name,
        "measured on": "/".join(map(str, measured)),
        "algorithm": message.algorithm,
        "misses [%]": 100 * message.off,
        "payload": readable(size),
        **{f"{n} ranks, predicted [ms]": 1e3 * message.seconds(name, n, size) for n in world_sizes},
    }


def some_of(sizes: list[float]) -> list[float]:
    """The smallest, the middle and the largest."""
    return sorted({sizes[0], sizes[len(sizes) // 2], sizes[-1]})


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m analysis predict", description=__doc__)
    result.add_argument("places", metavar="DIR", nargs="+", type=Path, help="folders of records of suite collective")
    result.add_argument(
        "--world-size", type=numbers, required=True, metavar="N,N,...", help="numbers of ranks to predict for"
    )
    return result
