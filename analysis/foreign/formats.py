"""The formats of other systems: what reads their files, and what writes them."""

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
"""What might be a first cell, of a line; each that is tried copies the rest."""
OF_CSV: Reader = partial(read_csv, formats=CSV)
OF_TEXT: dict[re.Pattern[str], Reader] = {
    nccl_tests.BEGIN: nccl_tests.read,
    osu.BEGIN: osu.read,
    param.BEGIN: param.read,
}
"""What reads lines of text, by what begins them."""
OF_JSON: tuple[Callable[[ForeignOutput], Reading | None], ...] = (
    nccl_tests.read_json,
    cs336.read_json,
)
"""Each returns None for a document of another kind."""
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
"""What a row of our records becomes, by suite."""
WRITERS: dict[str, tuple[Callable[[pd.DataFrame], dict[str, str]], ...]] = {
    "ddlb": (ddlb_csv,),
    "cs336": (cs336.export_all_reduces, cs336.export_models),
    "hetero": (hetero.export_rings, hetero.export_matmuls, hetero.export_decoders),
}
"""What writes the files of a system, by its name: their texts by their names."""


def read(place: str, text: str, ranks: int | None = None) -> Reading | None:
    """Read a file of any formats, each source of it apart; None where it has none of them.

    Raises:
        RanksMissing: the output does not say how many ranks it is of, nor does the user.
    """
    sources, others = strip_prefixes(text, (start_of, start_of_document))
    readings = []
    strangers = [others]
    for source in sources:
        of_source = list(readings_of(ForeignOutput(place, source.text, ranks)))
        if of_source and not any(each.rows or each.skipped for each in of_source):
            behind = f" behind {source.prefix[:80]!r}" if source.prefix else ""
            of_source[0].skipped.append(f"{place}: no whole row of results in it{behind}")
        readings += of_source
        if not of_source:
            strangers.append(source.text)
    if not readings:
        return None
    found = Reading()
    for reading in readings:
        found.add(reading)
    lines = "".join(strangers).splitlines()
    strays = sum(bool(ROW.search(line)) for line in lines)
    if strays:
        found.skipped.append(f"{place}: {strays} line(s) of numbers behind another prefix")
    if any(each and not each.endswith("\n") for each in strangers):
        found.skipped.append(f"{place}: ends within a line")
    found.skipped = list(dict.fromkeys(found.skipped))
    return found


def readings_of(output: ForeignOutput) -> Iterator[Reading]:
    """Yield a reading of each output in a text, which ends where one of another format begins."""
    if output.text.lstrip().startswith("{"):
        for read_document in OF_JSON:
            if (found := read_document(output)) is not None:
                yield found
                return
    for reader, text in outputs_in(output.text):
        yield reader(replace(output, text=text))


def outputs_in(text: str) -> list[tuple[Reader, str]]:
    """Split a text where outputs of other formats begin; the first has what stands before it."""
    found: list[tuple[Reader, list[str]]] = []
    before: list[str] = []
    for line in text.splitlines(keepends=True):
        start, reader = find_output(line)
        if start == 0 and reader and (not found or reader is OF_CSV or found[-1][0] is not reader):
            found.append((reader, before if not found and reader is not OF_CSV else []))
        (found[-1][1] if found else before).append(line)
    return [(reader, "".join(lines)) for reader, lines in found]


def start_of(line: str) -> int | None:
    return find_output(line)[0]


def start_of_document(line: str) -> int | None:
    found = DOCUMENT.match(line[:MOST_LETTERS])
    return found.start(1) if found else None


def find_output(line: str) -> tuple[int | None, Reader | None]:
    """Return where a known output begins in a line, if it does, and what reads it."""
    beginning = line[:MOST_LETTERS]
    for pattern, reader in OF_TEXT.items():
        if found := pattern.search(beginning):
            return found.start(), reader
    if any(heads.issubset(cells_of(beginning)) for heads in CSV):
        return 0, OF_CSV
    for first in islice(FIRST_CELL.finditer(beginning), MOST_FIRST_CELLS):
        cells = cells_of(beginning[first.start() :])  # a prefix hides the first cell
        if any(heads.issubset(cells) for heads in CSV):
            return first.start(), OF_CSV
    return None, None


def read_records(place: Path) -> Reading:
    """Read our records at or below a place, of suites whose cases other systems time, too."""
    found = harvest([place])
    result = Reading(skipped=[*found.remarks()])
    for row in found.rows:
        if row["suite"] not in RECORDED:
            continue
        try:
            timing = RECORDED[row["suite"]].of_record(row)
        except (LookupError, TypeError, ValueError) as error:
            why = f"not a record of {row['suite']} ({type(error).__name__}: {error})"
            result.skipped.append(f"{row['path']}: {why}")
            continue
        if timing is not None:
            result.rows.append(timing)
    if not result.rows and not result.skipped:
        result.skipped.append(f"{place}: no record of suite {', '.join(RECORDED)}")
    return result
