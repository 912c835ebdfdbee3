"""Output of nccl-tests: the text of all_reduce_perf and its like, and the JSON that -J writes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.suites.collective.imported import Reading, Row, number, unfinished, whole_lines

SAME = (
    "all_gather", "all_reduce", "alltoallv", "broadcast", "gather", "hypercube", "reduce", "reduce_scatter", "scatter",
)  # fmt: skip
COLLECTIVES = {name: name for name in SAME} | {"alltoall": "all_to_all", "sendrecv": "send_recv"}
"""Names of collectives by those of programs, less _perf."""
PROGRAM = re.compile(rf"(?<![A-Za-z_])({'|'.join(COLLECTIVES)})_perf")
RANK = re.compile(r"#\s+Rank\s+\d+(?:\s+Group\s+(\d+))?\s+Pid\s")
HEAD = re.compile(r"#\s+size\s+count\s+type\s")
NAMELESS = "does not say which test it was; put it in the file's name, as in all_reduce_perf.txt"
JSON_RESULTS = re.compile(r'"results"\s*:\s*\[')
AVERAGE = re.compile(r"(?:^|\s)(?:-a\s*|--average[=\s])([0-3])")
TYPES = {"half": "float16", "float": "float32", "double": "float64"}
OPERATIONS = {"prod": "product", "none": None, "": None}
OVER_PROCESSES = ("of rank 0's process", "average over processes", "of the fastest process", "of the slowest process")
"""What -a chooses, by its number."""


@dataclass(frozen=True)
class Run:
    """What is said of a table before it. over: which statistic over processes. columns: heads of a table in text."""

    file: str
    program: str | None = None
    groups: tuple[str, ...] = ()
    world_size: int | None = None
    over: str = "over processes by -a (default: their average)"
    columns: tuple[str, ...] = ()


def read(file: str, text: str) -> Reading | None:
    """All results in a text; None where it is no output of nccl-tests. Numbers of ranks are those of a communicator.

    Which test it was is told by the output, older ones only by the command in it or by the file's name.
    """
    named = PROGRAM.search(Path(file).name)
    run = Run(file, named[1] if named else None)
    if text.lstrip().startswith("{") and '"nccl_version"' in text:
        return of_json(run, text)
    return of_text(run, text) if any(HEAD.match(line) for line in text.splitlines()) else None


def of_text(run: Run, text: str) -> Reading:
    found, torn, nameless = Reading(), unfinished(text), False
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
            found.rows += [row_of(run, *each) for each in cells if run.program]
    if torn:
        found.passed_over.append(f"{run.file}: {torn} line(s) cut off or torn")
    if nameless:
        found.passed_over.append(f"{run.file}: {NAMELESS}")
    return found


Cells = tuple[Mapping[str, Any], Mapping[str, Any], bool]
"""What a line has for both: size, type, redop; what it has out of place or in place, as in JSON; whether in place."""


def cells_of(columns: tuple[str, ...], words: list[str]) -> list[Cells]:
    """The two results of a line, [] where it is not whole. A reduction may be blank; a timestamp is two words."""
    names = [name for name in columns if name != "timestamp"]
    extra = 2 * (len(columns) - len(names))
    if len(words) - extra == len(names) - 1 and "redop" in names and number(words[names.index("redop")]) is not None:
        names.remove("redop")
    times = [index for index, name in enumerate(names) if name in ("time", "cputime")]
    if len(words) - extra != len(names) or len(times) != 2:
        return []
    pairs = list(zip(names, words, strict=False))
    what, *sides = dict(pairs[: times[0]]), dict(pairs[times[0] : times[1]]), dict(pairs[times[1] :])
    if any(number(value) is None for side in sides for value in (side["algbw"], side["busbw"])):
        return []
    renamed = {"cputime": "cpu_time", "algbw": "alg_bw", "busbw": "bus_bw", "#wrong": "nwrong"}
    bodies = [{renamed.get(name, name): value for name, value in side.items()} for side in sides]
    return [(what, bodies[0], False), (what, bodies[1], True)]


def of_json(run: Run, text: str) -> Reading:
    content, whole = decoded(text)
    config, arguments = content.get("config", {}), " ".join(map(str, content.get("args", ())))
    devices = config.get("devices", ())
    program, average = PROGRAM.search(arguments), AVERAGE.search(arguments)
    here = sum(each["group"] == devices[0]["group"] for each in devices)  # one device is listed per process
    run = replace(
        run,
        program=program[1] if program else run.program,
        world_size=here * config["nthreads"] * config["ngpus"] if here else None,
        over=OVER_PROCESSES[int(average[1]) if average else 1],
    )
    found = Reading(passed_over=[] if whole else [f"{run.file}: cut off; what is whole of it is read"])
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
    """A document, and whether it is whole; of one cut off all that comes before the results, and each whole result."""
    try:
        return dict(json.loads(text)), True
    except json.JSONDecodeError:
        start = JSON_RESULTS.search(text)
    if start is None:
        return {}, False
    return json.loads(text[: start.end()] + "]}") | {"results": list(objects(text, start.end()))}, False


def objects(text: str, at: int) -> Iterator[Any]:
    """The whole objects of a list that is cut off, from inside it."""
    decoder = json.JSONDecoder()
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" ,\r\n\t"))
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield value


def row_of(run: Run, what: Mapping[str, Any], body: Mapping[str, Any], in_place: bool) -> Row:
    """A result; its size is S of nccl-tests' own convention already."""
    collective, time_us = COLLECTIVES[str(run.program)], number(body.get("time"))
    operation, dtype = str(what.get("redop", "")), str(what["type"])
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


def by_median(row: Row, told: Mapping[str, Any] | None) -> Iterator[Row]:
    """A second row where iterations were timed apart (-I 1): the statistic that ours has."""
    if told and told["p50_us"] and row.time_s and row.algbw_gb_per_s and row.busbw_gb_per_s:
        faster = row.time_s / (told["p50_us"] * 1e-6)
        yield replace(
            row,
            time_s=row.time_s / faster,
            algbw_gb_per_s=row.algbw_gb_per_s * faster,
            busbw_gb_per_s=row.busbw_gb_per_s * faster,
            estimator="median over iterations of the slowest process",
            conversion="time as printed by -I; bandwidth as printed x mean time / median",
        )


def status(wrong: Any) -> str:
    """invalid where elements are wrong, or their number is none. Old versions print a deviation instead, not judged."""
    if wrong in (None, "N/A"):
        return "unchecked"
    return "ok" if number(wrong) == 0 else "invalid"


def conversion(collective: str, of_the_host: bool) -> str:
    words = "time printed is the host's in calls (-C) and left out; bandwidth" if of_the_host else "time and bandwidth"
    ring = "; a ring in which each rank sends and receives at once, no round trip" if collective == "send_recv" else ""
    return f"{words} as printed{ring}"
