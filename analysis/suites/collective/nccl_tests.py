"""Reads output of nccl-tests: text of all_reduce_perf and its like, and the JSON that -J writes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.records.foreign import Reading, number, unfinished, whole_lines
from analysis.suites.collective.nccl_rows import COLLECTIVES, Run, by_median, row_of

PROGRAM = re.compile(rf"(?<![A-Za-z_])({'|'.join(COLLECTIVES)})_perf")
RANK = re.compile(r"#\s+Rank\s+\d+(?:\s+Group\s+(\d+))?\s+Pid\s")
HEAD = re.compile(r"#\s+size\s+count\s+type\s")
NAMELESS = "does not say which test it was; put it in the file's name, as in all_reduce_perf.txt"
JSON_RESULTS = re.compile(r'"results"\s*:\s*\[')
AVERAGE = re.compile(r"(?:^|\s)(?:-a\s*|--average[=\s])([0-3])")
RENAMED = {"cputime": "cpu_time", "algbw": "alg_bw", "busbw": "bus_bw", "#wrong": "nwrong"}
"""Keys of JSON by the heads of columns in text."""
OVER_PROCESSES = (
    "of rank 0's process",
    "average over processes",
    "of the fastest process",
    "of the slowest process",
)
"""What -a chooses, by its number."""


def read(file: str, text: str) -> Reading | None:
    """Read all results in a text; None where it is not the output of nccl-tests.

    The output names the test. In older output only the command in it does, or the file's name.
    Numbers of ranks are those of a communicator.
    """
    named = PROGRAM.search(Path(file).name)
    run = Run(file, named[1] if named else None)
    if text.lstrip().startswith("{") and '"nccl_version"' in text:
        return of_json(run, text)
    return of_text(run, text) if any(HEAD.match(line) for line in text.splitlines()) else None


def of_text(run: Run, text: str) -> Reading:
    found = Reading()
    torn = unfinished(text)
    nameless = False
    for line in whole_lines(text):
        words = line.split()
        if line.startswith("# Using devices"):
            run = replace(run, groups=(), world_size=None, columns=())
        elif rank := RANK.match(line):
            groups = (*run.groups, rank[1] or "")
            run = replace(run, groups=groups, world_size=groups.count(groups[0]))
        elif HEAD.match(line):
            run = replace(run, columns=tuple(line.removeprefix("#").split()))
        elif program := PROGRAM.search(line):
            run = replace(run, program=program[1])
        elif run.columns and words and words[0].isdigit():
            cells = cells_of(run.columns, words)
            nameless |= run.program is None
            torn += not cells
            found.rows += [row_of(run, *cell) for cell in cells if run.program]
    if torn:
        found.passed_over.append(f"{run.file}: {torn} line(s) cut off or torn")
    if nameless:
        found.passed_over.append(f"{run.file}: {NAMELESS}")
    return found


Cells = tuple[Mapping[str, Any], Mapping[str, Any], bool]
"""One of the two results of a line.

In order: what both share (size, type, redop), the result with the keys of JSON, whether in place.
"""


def cells_of(columns: tuple[str, ...], words: list[str]) -> list[Cells]:
    """Split a line into its two results, out of place and in place; [] where it is not whole.

    A reduction may be blank; a timestamp is two words.
    """
    names = [name for name in columns if name != "timestamp"]
    count = len(words) - 2 * (len(columns) - len(names))
    one_less = count == len(names) - 1
    if one_less and "redop" in names and number(words[names.index("redop")]) is not None:
        names.remove("redop")
    times = [index for index, name in enumerate(names) if name in ("time", "cputime")]
    if count != len(names) or len(times) != 2:
        return []
    first, second = times
    pairs = list(zip(names, words, strict=False))
    what = dict(pairs[:first])
    sides = (dict(pairs[first:second]), dict(pairs[second:]))
    if any(None in (number(side["algbw"]), number(side["busbw"])) for side in sides):
        return []
    if any((number(side.get("time")) or 0) < 0 for side in sides):
        return []
    out_of_place, in_place = map(with_json_keys, sides)
    return [(what, out_of_place, False), (what, in_place, True)]


def with_json_keys(cells: Mapping[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(name, name): value for name, value in cells.items()}


def of_json(run: Run, text: str) -> Reading:
    content, whole = decoded(text)
    config = content.get("config", {})
    arguments = " ".join(map(str, content.get("args", ())))
    devices = config.get("devices", ())
    program = PROGRAM.search(arguments)
    average = AVERAGE.search(arguments)
    # One device is listed per process.
    processes = sum(device["group"] == devices[0]["group"] for device in devices)
    run = replace(
        run,
        program=program[1] if program else run.program,
        world_size=processes * config["nthreads"] * config["ngpus"] if processes else None,
        over=OVER_PROCESSES[int(average[1]) if average else 1],
    )
    found = Reading()
    if not whole:
        found.passed_over.append(f"{run.file}: cut off; what is whole of it is read")
    if run.program is None:
        found.passed_over.append(f"{run.file}: {NAMELESS}")
        return found
    for result in content.get("results", ()):
        for side, in_place in (("out_of_place", False), ("in_place", True)):
            if result.get(side):
                row = row_of(run, result, result[side], in_place)
                found.rows += [row, *by_median(row, result.get(f"{side}_per_iter"))]
    return found


def decoded(text: str) -> tuple[dict[str, Any], bool]:
    """Decode a JSON document that may be cut off.

    Returns:
        The document, and whether it is whole. One that is cut off has all that comes before the
        results, and each whole result.
    """
    try:
        return dict(json.loads(text)), True
    except json.JSONDecodeError:
        start = JSON_RESULTS.search(text)
    if start is None:
        return {}, False
    before = json.loads(text[: start.end()] + "]}")
    return before | {"results": list(objects(text, start.end()))}, False


def objects(text: str, at: int) -> Iterator[Any]:
    """Yield the whole objects of a list that is cut off, from an index inside the list."""
    decoder = json.JSONDecoder()
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" ,\r\n\t"))
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield value
