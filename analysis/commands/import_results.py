"""`python -m analysis import` shows results of other systems beside our own records."""

import argparse
from functools import partial
from pathlib import Path

from analysis.commands import formats
from analysis.commands.import_table import as_text, combined, write
from analysis.output import folder_for
from analysis.records.foreign import Reading, Timing
from analysis.records.paths import PATTERN, missing, one_line
from analysis.suites.collective.imported import RanksMissing
from analysis.text import complain
from benchkit.record import files
from benchkit.record.naming import printable

warn = partial(complain, "analysis import")

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
    rows: list[Timing] = []
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
    tables = combined(rows)
    try:
        written = write(tables, folder_for(options.places[0], options.output_dir))
    except OSError as error:
        warn(error)
        return 2
    print(
        as_text(tables, "simple"), "", *(printable(f"wrote {path}") for path in written), sep="\n"
    )
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
            return formats.recorded(place)
        files.require_regular(place.resolve())  # Reading a pipe would block.
        text = place.read_text("utf-8-sig", errors="replace")
        found = formats.read(str(place), text, ranks)
    except RanksMissing:
        raise
    except UNREADABLE as error:
        why = f"{place}: cannot be read ({type(error).__name__}: {error})"
        return Reading(passed_over=[one_line(why)])
    if found is None:
        why = f"{place}: no known format; known are {formats.KNOWN}, and folders of records"
        return Reading(passed_over=[why])
    if not found.rows and not found.passed_over:
        found.passed_over.append(f"{place}: no whole row of results in it")
    return found


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
        description="`python -m analysis import`: results of other systems beside our own "
        f"records. Formats, recognised by their content: {formats.KNOWN}.",
    )
    result.add_argument(
        "places",
        metavar="FILE|DIR",
        nargs="+",
        type=Path,
        help="a file of results, or our records",
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
