"""The formats of other systems, with their readers and writers."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pandas as pd

from analysis.foreign import cs336, ddlb, hetero, nccl_tests, osu, param
from analysis.foreign.collectives import CollectiveTiming
from analysis.foreign.timings import (
    MOST_LETTERS,
    ROW,
    ForeignOutput,
    Reading,
    Timing,
    cells_of,
    read_csv,
)
from analysis.foreign.undecorated import strip_prefixes
from analysis.records.harvest import harvest
from analysis.suites.tensor_parallel.ddlb_csv import ddlb_csv
from analysis.suites.tensor_parallel.summary import SUITES

KNOWN = (
    "nccl-tests (text, JSON, cloudai's CSV), OSU, PARAM, CS336 (all-reduce CSV, transformer JSON), "
    "DDLB, hpml_testing"
)
Reader = Callable[[ForeignOutput], Reading]
CSV = cs336.CSV | ddlb.CSV | hetero.CSV | nccl_tests.CSV
FIRST_CELL = re.compile(
    rf"""(?<!\w)(")?(?:{"|".join(map(re.escape, sorted(frozenset().union(*CSV))))})(?(1)"),"""
)
MOST_FIRST_CELLS = 20
"""Most candidates for a first cell in a line; each trial copies the rest of the line."""
OF_CSV: Reader = partial(read_csv, formats=CSV)
OF_TEXT: dict[re.Pattern[str], Reader] = {
    nccl_tests.BEGIN: nccl_tests.read,
    osu.BEGIN: osu.read,
    param.BEGIN: param.read,
}
"""Readers of text, by the pattern of their first line."""
OF_JSON: tuple[Callable[[ForeignOutput], Reading | None], ...] = (
    nccl_tests.read_json,
    cs336.read_json,
)
"""Readers of JSON; each returns None for another document."""
DOCUMENT = re.compile(r'[^"{]*(\{)\s*(?:"|$)')
RECORDED: dict[str, type[Timing]] = {
    **{
        row.SUITE: row
        for row in (
            CollectiveTiming,
            cs336.StepTiming,
            hetero.RingTiming,
            hetero.MatmulTiming,
            hetero.DecoderTiming,
        )
    },
    **dict.fromkeys(SUITES, ddlb.ProductTiming),
}
"""The timing class of our records, by suite."""
WRITERS: dict[str, tuple[Callable[[pd.DataFrame], dict[str, str]], ...]] = {
    "ddlb": (ddlb_csv,),
    "cs336": (cs336.export_all_reduces, cs336.export_models),
    "hetero": (hetero.export_rings, hetero.export_matmuls, hetero.export_decoders),
}
"""Writers of the files of each system; they return texts by file name."""


def read(place: str, text: str, ranks: int | None = None) -> Reading | None:
    """Read a file of any known formats, each of its sources separately; None without any.

    Raises:
        RanksMissing: neither the output nor the user gives the number of ranks.
    """
    sources, unread_lines = strip_prefixes(text, (start_of, start_of_document))
    readings = []
    unread = [unread_lines]
    for source in sources:
        of_source = list(readings_of(ForeignOutput(place, source.text, ranks)))
        if of_source and not any(each.rows or each.skipped for each in of_source):
            behind = f" behind {source.prefix[:80]!r}" if source.prefix else ""
            of_source[0].skipped.append(f"{place}: no whole row of results in it{behind}")
        readings += of_source
        if not of_source:
            unread.append(source.text)
    if not readings:
        return None
    combined = Reading()
    for reading in readings:
        combined.add(reading)
    lines = "".join(unread).splitlines()
    strays = sum(bool(ROW.search(line)) for line in lines)
    if strays:
        combined.skipped.append(f"{place}: {strays} line(s) of numbers behind another prefix")
    if any(each and not each.endswith("\n") for each in unread):
        combined.skipped.append(f"{place}: ends within a line")
    combined.skipped = list(dict.fromkeys(combined.skipped))
    return combined


def readings_of(output: ForeignOutput) -> Iterator[Reading]:
    """Yield a reading per output in a text; an output ends where another format begins."""
    if output.text.lstrip().startswith("{"):
        for read_document in OF_JSON:
            if (reading := read_document(output)) is not None:
                yield reading
                return
    for reader, text in outputs_in(output.text):
        yield reader(replace(output, text=text))


def outputs_in(text: str) -> list[tuple[Reader, str]]:
    """Split a text where another format begins; the first output includes the text before it."""
    outputs: list[tuple[Reader, list[str]]] = []
    before: list[str] = []
    for line in text.splitlines(keepends=True):
        start, reader = find_output(line)
        if (
            start == 0
            and reader
            and (not outputs or reader is OF_CSV or outputs[-1][0] is not reader)
        ):
            outputs.append((reader, before if not outputs and reader is not OF_CSV else []))
        (outputs[-1][1] if outputs else before).append(line)
    return [(reader, "".join(lines)) for reader, lines in outputs]


def start_of(line: str) -> int | None:
    return find_output(line)[0]


def start_of_document(line: str) -> int | None:
    match = DOCUMENT.match(line[:MOST_LETTERS])
    return match.start(1) if match else None


def find_output(line: str) -> tuple[int | None, Reader | None]:
    """Return where a known output begins in a line, and its reader; (None, None) without any."""
    beginning = line[:MOST_LETTERS]
    for pattern, reader in OF_TEXT.items():
        if match := pattern.search(beginning):
            return match.start(), reader
    if any(heads.issubset(cells_of(beginning)) for heads in CSV):
        return 0, OF_CSV
    for first in islice(FIRST_CELL.finditer(beginning), MOST_FIRST_CELLS):
        cells = cells_of(beginning[first.start() :])  # without a prefix before the first cell
        if any(heads.issubset(cells) for heads in CSV):
            return first.start(), OF_CSV
    return None, None


def read_records(place: Path) -> Reading:
    """Read our records at or below a place, of suites that other systems measure, too."""
    records = harvest([place])
    reading = Reading(skipped=[*records.remarks()])
    for row in records.rows:
        if row["suite"] not in RECORDED:
            continue
        try:
            timing = RECORDED[row["suite"]].of_record(row)
        except (LookupError, TypeError, ValueError) as error:
            reason = f"not a record of {row['suite']} ({type(error).__name__}: {error})"
            reading.skipped.append(f"{row['path']}: {reason}")
            continue
        if timing is not None:
            reading.rows.append(timing)
    if not reading.rows and not reading.skipped:
        reading.skipped.append(f"{place}: no record of suite {', '.join(RECORDED)}")
    return reading
