"""Read output of nccl-tests: text of all_reduce_perf and its like, and the JSON that -J writes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.records.foreign import Reading, number, unfinished, whole_lines
from analysis.suites.collective.imported import Row
from benchkit.suites.collective.suite import ALL_TO_ALL, SEND_RECV

SAME = (
    "all_gather", "all_reduce", "alltoallv", "broadcast", "gather", "hypercube", "reduce",
    "reduce_scatter", "scatter",
)  # fmt: skip
COLLECTIVES = {name: name for name in SAME} | {"alltoall": ALL_TO_ALL, "sendrecv": SEND_RECV}
"""Names of collectives by those of programs, less _perf."""
TYPES = {"half": "float16", "float": "float32", "double": "float64"}
OPERATIONS = {"prod": "product", "none": None, "": None}


@dataclass(frozen=True)
class Run:
    """What the output says about a table before the table begins.

    Attributes:
        file: where the output was read.
        program: the name of the test, a key of COLLECTIVES.
        groups: the group of each rank, as the text lists them.
        world_size: the number of ranks of one communicator.
        over: the statistic over processes, in words.
        columns: the heads of a table in text.
    """

    file: str
    program: str | None = None
    groups: tuple[str, ...] = ()
    world_size: int | None = None
    over: str = "over processes by -a (default: their average)"
    columns: tuple[str, ...] = ()


def row_of(run: Run, what: Mapping[str, Any], body: Mapping[str, Any], in_place: bool) -> Row:
    """Make a row of one result, whose size is S of nccl-tests' own convention already.

    Args:
        run: the run that the result belongs to.
        body: the result out of place or in place, with the keys of JSON.
    """
    collective = COLLECTIVES[str(run.program)]
    time_us = number(body.get("time"))
    if time_us is not None and time_us < 0:
        raise ValueError(f"time {time_us:g}: allowed are times >= 0")
    operation = str(what.get("redop", ""))
    dtype = str(what["type"])
    return Row(
        source="nccl-tests",
        file=run.file,
        collective=collective,
        backend="nccl",
        device="cuda",
        world_size=run.world_size,
        dtype=TYPES.get(dtype, dtype),
        reduce_op=OPERATIONS.get(operation, operation),
        payload_bytes=int(what["size"]),
        time_s=None if time_us is None else time_us * 1e-6,
        algbw_gb_per_s=number(body["alg_bw"]),
        busbw_gb_per_s=number(body["bus_bw"]),
        in_place=in_place,
        status=status(body.get("nwrong")),
        estimator=f"mean over iterations, {run.over}",
        conversion=conversion(collective, "cpu_time" in body),
    )


def by_median(row: Row, times: Mapping[str, Any] | None) -> Iterator[Row]:
    """Yield a second row by the median, as ours have it, where iterations were timed apart (-I 1).

    Args:
        row: the row by the mean over iterations.
        times: of the iterations, in microseconds; None where they were not timed apart.
    """
    if times and times["p50_us"] and row.time_s and row.algbw_gb_per_s and row.busbw_gb_per_s:
        faster = row.time_s / (times["p50_us"] * 1e-6)
        yield replace(
            row,
            time_s=row.time_s / faster,
            algbw_gb_per_s=row.algbw_gb_per_s * faster,
            busbw_gb_per_s=row.busbw_gb_per_s * faster,
            estimator="median over iterations of the slowest process",
            conversion="time as printed by -I; bandwidth as printed x mean time / median",
        )


def status(wrong: Any) -> str:
    """Judge a result by its number of wrong elements.

    A result is invalid where elements are wrong, or where the cell is no number. Old versions print
    a deviation instead, which is not judged.
    """
    if wrong in (None, "N/A"):
        return "unchecked"
    return "ok" if number(wrong) == 0 else "invalid"


def conversion(collective: str, of_the_host: bool) -> str:
    """Describe how time and bandwidth were taken over.

    Args:
        of_the_host: whether the printed time is the host's time in calls (-C).
    """
    if of_the_host:
        words = "time printed is the host's in calls (-C) and left out; bandwidth"
    else:
        words = "time and bandwidth"
    if collective == SEND_RECV:
        ring = "; a ring in which each rank sends and receives at once, no round trip"
    else:
        ring = ""
    return f"{words} as printed{ring}"


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
