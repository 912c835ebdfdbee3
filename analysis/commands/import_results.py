"""`python -m analysis import` shows results of nccl-tests and OSU beside our own records."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.records.paths import PATTERN, missing, one_line, require_regular
from analysis.suites.collective import nccl_tests, osu
from analysis.suites.collective.imported import RanksMissing, Reading, Row, recorded
from analysis.text import complain, render_table

warn = partial(complain, "analysis import")

ORDER = ["collective", "payload_bytes", "world_size", "source", "file", "in_place"]
"""The order of the rows, with comparable rows next to each other."""
HOW = ["source", "estimator", "conversion"]
UNREADABLE = (
    OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
"""What reading a broken file may raise."""


def main(arguments: list[str]) -> int:
    """Print and write one table of all results.

    Returns:
        0; 2 for invalid arguments, and where nothing could be read.
    """
    options = parser().parse_args(arguments)
    if problem := wrong(options):
        warn(problem)
        return 2
    rows: list[Row] = []
    for place in options.places:
        try:
            found = readings(place, options.ranks)
        except RanksMissing as error:
            warn(f"{error}; add --ranks N")
            return 2
        for line in found.passed_over:
            warn(line)
        rows += found.rows
    if not rows:
        return 2
    first = options.places[0]
    folder = options.output_dir or (first if first.is_dir() else first.parent) / "analysis"
    table = combined(rows)
    try:
        written = write(table, folder)
    except OSError as error:
        warn(error)
        return 2
    print(as_text(table, "simple"), "", *(f"wrote {path}" for path in written), sep="\n")
    return 0


def readings(place: Path, ranks: int | None) -> Reading:
    """Read the results in a place; where nothing is readable, one line says why.

    Args:
        place: a file of results, or a folder of records.
        ranks: how many ranks OSU ran on, where they are known.

    Raises:
        RanksMissing: for results that do not say how many ranks they are of.
    """
    try:
        if place.is_dir() or place.match(PATTERN):
            return recorded(place)
        require_regular(place)  # Reading a pipe would block.
        text = place.read_text(errors="replace")
        found = nccl_tests.read(str(place), text) or osu.read(str(place), text, ranks)
    except RanksMissing:
        raise
    except UNREADABLE as error:
        why = f"{place}: cannot be read ({type(error).__name__}: {error})"
        return Reading(passed_over=[one_line(why)])
    if found is None:
        why = f"{place}: neither nccl-tests nor OSU output nor a folder of records"
        return Reading(passed_over=[why])
    if not found.rows and not found.passed_over:
        found.passed_over.append(f"{place}: no whole row of results in it")
    return found


def combined(rows: Sequence[Row]) -> pd.DataFrame:
    """Make one table, with equal collectives, sizes and numbers of ranks next to each other."""
    columns = [column.name for column in fields(Row)]
    table = pd.DataFrame([asdict(row) for row in rows], columns=columns)
    table = table.astype({"world_size": "Int64", "payload_bytes": "Int64"})
    return table.sort_values(ORDER, ignore_index=True)


def write(table: pd.DataFrame, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    figures, page = folder / "imported.csv", folder / "imported.md"
    table.to_csv(figures, index=False)
    page.write_text(as_text(table, "github") + "\n")
    return [figures, page]


def as_text(table: pd.DataFrame, style: str) -> str:
    """Render the table, with numbered notes on how rows were measured and converted."""
    number = table.groupby(HOW, sort=False).ngroup() + 1
    shown = pd.DataFrame(
        {
            "collective": table["collective"],
            "payload [B]": table["payload_bytes"],
            "ranks": table["world_size"],
            "source": table["source"],
            "file": table["file"].map(lambda file: Path(file).name),
            "backend": table["backend"],
            "device": table["device"],
            "dtype": table["dtype"],
            "reduce_op": table["reduce_op"],
            "in place": table["in_place"].map({True: "yes", False: "no"}),
            "status": table["status"],
            "time [ms]": pd.to_numeric(table["time_s"]) * 1e3,
            "OSU mean [ms]": pd.to_numeric(table["osu_mean_s"]) * 1e3,
            "algbw [GB/s]": pd.to_numeric(table["algbw_gb_per_s"]),
            "busbw [GB/s]": pd.to_numeric(table["busbw_gb_per_s"]),
            "how": number,
        }
    ).dropna(axis=1, how="all")
    lines = [render_table(shown, style), "", "How (1 GB = 10^9 bytes, S: payload):", ""]
    for way in table.assign(number=number).drop_duplicates("number").itertuples():
        lines.append(f"{way.number}. {way.source}: {way.estimator}; {way.conversion}")
    return "\n".join(lines)


def wrong(options: argparse.Namespace) -> str:
    """Say what is wrong with the arguments, and what is allowed; "" where all is right."""
    if why := missing(options.places):
        return why
    if options.ranks is not None and options.ranks < 2:
        return f"--ranks {options.ranks}: allowed are numbers >= 2"
    return ""


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m analysis import",
        description="`python -m analysis import`: results of nccl-tests and of the OSU "
        "micro-benchmarks beside our own records.",
    )
    result.add_argument(
        "places",
        metavar="FILE|DIR",
        nargs="+",
        type=Path,
        help="output of nccl-tests (text, JSON) or OSU; our records",
    )
    result.add_argument(
        "--ranks",
        type=int,
        metavar="N",
        help="how many ranks OSU ran on, which it does not print",
    )
    result.add_argument(
        "--output-dir",
        metavar="D",
        type=Path,
        help="where to write (default: analysis/ beside the first)",
    )
    return result
