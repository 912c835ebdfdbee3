"""`python -m analysis predict DIR... --world-size N,N` predicts collectives on more ranks."""

import argparse
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.commands.predictions import models_of, remarks, rows_of
from analysis.records.harvest import harvest
from analysis.records.paths import missing
from analysis.records.workers import usable_processes
from analysis.suites.collective.table import Series, groups_of
from analysis.table import combine
from analysis.text import complain, render_table

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


def main(arguments: list[str]) -> int:
    """Print a table of predictions for each group of comparable records.

    Returns:
        0; 1 where nothing can be predicted; 2 for invalid arguments.
    """
    options = parser().parse_args(arguments)
    if why := missing(options.places):
        warn(why)
        return 2
    wrong = [number for number in options.world_size if not 2 <= number <= MOST_RANKS]
    if wrong:
        warn(f"--world-size {wrong[0]}: allowed are numbers >= 2, up to {MOST_RANKS}")
        return 2
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


def print_predictions(title: str, series: list[Series], world_sizes: list[int]) -> None:
    """Print the table of one group of records, and the remarks on it."""
    models = models_of(series)
    table = pd.DataFrame([row for model in models for row in rows_of(model, world_sizes)])
    lines = [f"- {line}" for model in models for line in remarks(model, world_sizes)]
    if title:
        print(title)
    print(render_table(table, "simple"), end="\n\n")
    if lines:
        print(*lines, sep="\n", end="\n\n")


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m analysis predict",
        description="`python -m analysis predict DIR... --world-size N,N`: times on numbers of "
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
