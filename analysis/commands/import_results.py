"""`python -m analysis import`: show results of other systems beside our own records."""

import argparse
import codecs
import csv
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, fields
from functools import partial
from itertools import groupby
from pathlib import Path

import pandas as pd

from analysis.foreign import formats
from analysis.foreign.timings import RanksMissing, Reading, Timing
from analysis.records.paths import PATTERN, one_line, require_there
from analysis.records.results import plain_cells
from analysis.shared.output import folder_for
from analysis.shared.output import write as write_file
from analysis.shared.text import command, complain
from analysis.shared.text_table import MOST_ROWS, TextTable, Writer, table_of, truncation_lines
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.naming import escape_unprintable

COLUMNS = (
    "collective", "payload_bytes", "primitive", "model", "context_length", "batch_size", "step",
    "size", "bg_streams", "phase", "seq_len", "slowdown", "strategy", "m", "n", "k",
    "implementation", "world_size", "source", "file", "backend", "device", "dtype", "reduce_op",
    "in_place", "status", "time_s", "std_s", "osu_mean_s", "algbw_gb_per_s", "busbw_gb_per_s",
)  # fmt: skip
"""The columns on screen, in their order."""
HEADS = {
    "payload_bytes": "payload [B]",
    "context_length": "context",
    "batch_size": "batch",
    "step": "pass",
    "bg_streams": "background streams",
    "seq_len": "tokens",
    "world_size": "ranks",
    "in_place": "in place",
    "time_s": "time [ms]",
    "std_s": "std [ms]",
    "osu_mean_s": "OSU mean [ms]",
    "algbw_gb_per_s": "algbw [GB/s]",
    "busbw_gb_per_s": "busbw [GB/s]",
}
"""Headers of columns, where they differ from the names."""
TIMES = ("time_s", "std_s", "osu_mean_s")
CSV = "imported.csv"
HOW = ["source", "estimator", "conversion"]
"""Columns of the notes below a table."""
UNREADABLE = (
    OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError,
    csv.Error,
)  # fmt: skip
"""Exceptions of reading a corrupt file."""
STDIN = Path("-")
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # starts with that of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Encodings by the byte order mark of a file."""
warn = partial(complain, "analysis import")


@command("analysis import")
def main(arguments: list[str]) -> int:
    """Print and write a table of all results.

    Returns:
        0; 1 if a file has no readable results; 2 for invalid arguments, and if no file has any.
    """
    options = parser().parse_args(arguments)
    require_there(place for place in options.places if place != STDIN)
    if options.ranks is not None and options.ranks < 2:
        raise ConfigError(f"--ranks {options.ranks}: allowed are numbers >= 2")
    rows: list[Timing] = []
    is_whole = True
    try:
        for place in options.places:
            reading = read(place, options.ranks)
            for line in reading.skipped:
                warn(line)
            rows += reading.rows
            is_whole = is_whole and bool(reading.rows)
        if not rows:
            return 2
        tables = combine_timings(rows)
        first = options.places[0]
        is_stored = first.is_dir() or first.is_file()
        folder = folder_for(first if is_stored else Path(), options.output_dir)
        written = [
            write_file(folder, CSV, pd.concat(tables)),
            write_file(folder, "imported.md", as_text(tables, TextTable.markdown)),
        ]
    except RanksMissing as error:
        raise ConfigError(f"{error}; add --ranks N") from None
    print(as_text(tables, TextTable.text), "", sep="\n")
    print(*(escape_unprintable(f"wrote {path}") for path in written), sep="\n")
    return int(not is_whole)


def read(place: Path, ranks: int | None) -> Reading:
    """Read a file of results or a folder of records; RanksMissing if it requires `ranks`."""
    try:
        if place.is_dir() or place.match(PATTERN):
            return formats.read_records(place)
        reading = formats.read(str(place), text_of_file(place), ranks)
    except RanksMissing:
        raise
    except UNREADABLE as error:
        line = f"{place}: cannot be read ({type(error).__name__}: {error})"
        return Reading(skipped=[one_line(line)])
    if reading is None:
        line = f"{place}: no known format; known are {formats.KNOWN}, and folders of records"
        return Reading(skipped=[line])
    return reading


def text_of_file(place: Path) -> str:
    """Read a file, a pipe, or standard input for "-"."""
    if place != STDIN and not place.is_fifo():
        files.require_regular(place.resolve())
    with nullcontext(sys.stdin.buffer) if place == STDIN else place.open("rb") as file:
        content = file.read(files.MOST_BYTES + 1)
    if len(content) > files.MOST_BYTES:
        raise ValueError(f"more than {files.MOST_BYTES / 1e9:g} GB")
    encodings = (name for mark, name in MARKS.items() if content.startswith(mark))
    return content.decode(next(encodings, "utf-8"), errors="replace")


def combine_timings(rows: Sequence[Timing]) -> list[pd.DataFrame]:
    """Return a table per suite, with comparable rows next to each other."""
    tables = []
    in_order = sorted(rows, key=lambda row: row.SUITE)
    for suite, of_suite in groupby(in_order, key=lambda row: row.SUITE):
        timings = list(of_suite)
        columns = [column.name for column in fields(timings[0])]
        table = pd.DataFrame([plain_cells(asdict(row)) for row in timings], columns=columns)
        whole = {name: "Int64" for name in ("world_size", "payload_bytes") if name in table}
        table = table.astype(whole).sort_values([*timings[0].ORDER], ignore_index=True)
        table.insert(0, "suite", suite)
        tables.append(table)
    return tables


def as_text(tables: Sequence[pd.DataFrame], write_table: Writer) -> str:
    return "\n\n".join(text_of(table, write_table) for table in tables)


def text_of(rows: pd.DataFrame, write_table: Writer) -> str:
    """Render the first rows of a table, with numbered notes on how they were measured."""
    table = rows.iloc[:MOST_ROWS]
    number = table.groupby(HOW, sort=False).ngroup() + 1
    shown = table.assign(file=table["file"].map(lambda file: Path(file).name))
    for name in TIMES:
        if name in table:
            shown[name] = pd.to_numeric(table[name]) * 1e3
    if "in_place" in table:
        shown["in_place"] = table["in_place"].map({True: "yes", False: "no"})
    shown = shown[[name for name in COLUMNS if name in table]].rename(columns=HEADS)
    shown = shown.dropna(axis=1, how="all").assign(how=number)
    ways = [
        f"{way.number}. {way.source}: {way.estimator}; {way.conversion}"
        for way in table.assign(number=number).drop_duplicates("number").itertuples()
    ]
    how = "How (1 GB = 10^9 bytes, S: payload):"
    return "\n\n".join(
        [write_table(table_of(shown)), *truncation_lines(len(rows), CSV), how, "\n".join(ways)]
    )


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="benchkit-analysis import",
        description="`benchkit-analysis import`: results of other systems beside our own "
        f"records. Formats, recognised by their content: {formats.KNOWN}.",
    )
    result.add_argument(
        "places",
        metavar="FILE|DIR|-",
        nargs="+",
        type=Path,
        help="a file or pipe of results, - for standard input, or our records",
    )
    result.add_argument(
        "--ranks", type=int, metavar="N", help="how many ranks OSU ran on, which it does not print"
    )
    result.add_argument(
        "--output-dir", metavar="D", type=Path,
        help="where to write (default: report/ beside the first)",
    )  # fmt: skip
    return result
