"""Read output of nccl-tests: text of all_reduce_perf and its like, and the JSON that -J writes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.foreign.collectives import Collective
from analysis.foreign.timings import Cells, LinesByHeads, Output, Reading, number
from analysis.records.figures import Row
from benchkit.suites.collective.suite import ALL_TO_ALL, RING_SHIFT

SAME = (
    "all_gather", "all_reduce", "alltoallv", "broadcast", "gather", "hypercube", "reduce",
    "reduce_scatter", "scatter",
)  # fmt: skip
COLLECTIVES = {name: name for name in SAME} | {"alltoall": ALL_TO_ALL, "sendrecv": RING_SHIFT}
"""Names of collectives by those of programs, less _perf."""
TYPES = {"half": "float16", "float": "float32", "double": "float64"}
OPERATIONS = {"prod": "product", "none": None, "": None}

PROGRAM = re.compile(rf"(?<![A-Za-z])(?<!all_)({'|'.join(COLLECTIVES)})_perf")
RANK = re.compile(r"#\s+Rank\s+(\d+)(?:\s+Group\s+(\d+))?\s+Pid\s")
CUT_LIST = re.compile(r"#\s*\.\.\.")
HEAD = re.compile(r"\s*#\s+size\s+count\s+type\s")
SIDES = re.compile(r"\s*#\s+((?:(?:out-of|in)-place\s*)+)$")
"""The line above the heads; of old versions, both."""
MOST_BYTES = 10**18
OFF = 0.1
"""Share by which a printed bandwidth may differ from S / time by rounding."""
JSON_RESULTS = re.compile(r'"results"\s*:\s*\[')
AVERAGE = re.compile(r"(?:^|\s)(?:-a\s*|--average[=\s])([0-3])")
OVER_PROCESSES = (
    "of rank 0's process",
    "average over processes",
    "of the fastest process",
    "of the slowest process",
)
"""What -a chooses, by its number."""
JSON_KEYS = {"cputime": "cpu_time", "algbw": "alg_bw", "busbw": "bus_bw", "#wrong": "nwrong"}
"""Keys of JSON by the heads of columns in text, where they differ."""
NAMELESS = "does not say which test it was; put it in the file's name, as in all_reduce_perf.txt"


@dataclass(frozen=True)
class Run:
    """What the output says about a table before the table begins.

    Attributes:
        program: a key of COLLECTIVES.
        world_size: the number of ranks of one communicator; None where the list is cut.
        sides: whether each result of a line is in place.
        over: the statistic over processes, in words.
    """

    file: str
    program: str | None = None
    world_size: int | None = None
    over: str = "over processes by -a (default: their average)"
    columns: tuple[str, ...] = ()
    sides: tuple[bool, ...] = (False, True)


@dataclass(frozen=True)
class Result:
    """One of the two results of a size, with the keys of JSON.

    Attributes:
        shared: what both have in common: size, type, redop.
        own: time, alg_bw, bus_bw, nwrong; cpu_time for time with -C.
    """

    shared: Row
    own: Row
    in_place: bool


def read(output: Output) -> Reading | None:
    """Read all results; None where the file is not the output of nccl-tests."""
    # Old output names the test only by the command in it, if at all; the file's name may help.
    named = PROGRAM.search(Path(output.file).name)
    told = {found[1] for found in PROGRAM.finditer(output.text)}  # some only at the end
    run = Run(output.file, named[1] if named else told.pop() if len(told) == 1 else None)
    if output.text.lstrip().startswith("{") and '"nccl_version"' in output.text:
        return read_json(run, output.text)
    if any(HEAD.match(line) for line in output.text.splitlines()):
        return read_text(run, output)
    return None


def read_text(run: Run, output: Output) -> Reading:
    found = Reading()
    torn = output.num_cut_off()
    # The group of each rank. A number that repeats is of another communicator of the same size, of
    # a process built without MPI.
    ranks: dict[int, str] = {}
    nameless = cut = False
    for line in output.whole_lines():
        words = line.split()
        if line.startswith("# Using devices"):
            ranks = {}
            run = replace(run, columns=())
        elif rank := RANK.match(line):
            ranks[int(rank[1])] = rank[2] or ""
        elif CUT_LIST.match(line):
            cut = True
        elif sides := SIDES.match(line):
            run = replace(run, sides=tuple(side == "in-place" for side in sides[1].split()))
        elif HEAD.match(line):
            if cut:
                ranks, cut = {}, False
                found.passed_over.append(f"{run.file}: the list of devices is cut: ranks unknown")
            columns = tuple(line.strip().removeprefix("#").split())
            run = replace(run, columns=columns, world_size=size_of(ranks))
        elif program := PROGRAM.search(line):
            run = replace(run, program=program[1])
        elif run.columns and words and words[0].isdigit():
            results = results_of(run.columns, words, run.sides)
            nameless |= run.program is None
            torn += not results
            found.rows += [row_of(run, result) for result in results if run.program]
    found.pass_over_torn(run.file, torn)
    if nameless:
        found.passed_over.append(f"{run.file}: {NAMELESS}")
    return found


def size_of(ranks: dict[int, str]) -> int | None:
    """Count the ranks of one communicator; None where numbers are missing, or all."""
    if not ranks or sorted(ranks) != list(range(len(ranks))):
        return None
    of_group = list(ranks.values())
    return of_group.count(of_group[0])


def results_of(columns: tuple[str, ...], words: list[str], sides: tuple[bool, ...]) -> list[Result]:
    """Split a line into its results, out of place or in place; [] where it is not whole."""
    names = [name for name in columns if name != "timestamp"]
    count = len(words) - 2 * (len(columns) - len(names))  # a timestamp is two words
    one_less = count == len(names) - 1
    if one_less and "redop" in names and number(words[names.index("redop")]) is not None:
        names.remove("redop")  # which may be blank
    times = [index for index, name in enumerate(names) if name in ("time", "cputime")]
    if count != len(names) or len(times) != len(sides):
        return []
    pairs = list(zip(names, words, strict=False))
    shared = dict(pairs[: times[0]])
    found = []
    for start, end, in_place in zip(times, [*times[1:], len(pairs)], sides, strict=True):
        own = dict(pairs[start:end])
        if None in (number(own["algbw"]), number(own["busbw"])):
            return []
        if (number(own.get("time")) or 0) < 0 or not 0 <= int(shared["size"]) <= MOST_BYTES:
            return []
        found.append(Result(shared, with_json_keys(own), in_place))
    return found


def with_json_keys(cells: Mapping[str, str]) -> dict[str, str]:
    return {JSON_KEYS.get(name, name): value for name, value in cells.items()}


def of_cloudai(file: str, cells: Cells) -> Iterator[Collective]:
    """Yield the rows of a line of the table that github.com/NVIDIA/cloudai makes of the text."""
    program = PROGRAM.search(Path(file).name)
    if program is None:
        raise ValueError(NAMELESS)
    run = Run(file, program[1], world_size=cells.whole("Ranks", least=0) or None)
    shared = {"size": cells["Size (B)"], "type": cells["Type"], "redop": cells["Redop"]}
    for side, in_place in (("Out-of-place", False), ("In-place", True)):
        own = {
            "time": cells[f"Time (us) {side}"],
            "alg_bw": cells[f"Algbw (GB/s) {side}"],
            "bus_bw": cells[f"Busbw (GB/s) {side}"],
            "nwrong": cells[f"#Wrong {side}"],
        }
        yield row_of(run, Result(shared, own, in_place))


CSV: LinesByHeads = {
    frozenset({"Size (B)", "Time (us) Out-of-place", "#Wrong In-place", "Ranks"}): of_cloudai
}


def read_json(run: Run, text: str) -> Reading:
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
    torn = 0
    for content_of_size in content.get("results", ()):
        for side, in_place in (("out_of_place", False), ("in_place", True)):
            if own := content_of_size.get(side):
                try:
                    row = row_of(run, Result(content_of_size, own, in_place))
                except ValueError:
                    torn += 1
                    continue
                per_iteration = content_of_size.get(f"{side}_per_iter")
                found.rows += [row, *by_median(row, per_iteration)]
    found.pass_over_torn(run.file, torn)
    return found


def decoded(text: str) -> tuple[Row, bool]:
    """Decode a JSON document, and return whether it is whole.

    One that is cut off has all that comes before the results, and each whole result.
    """
    try:
        return dict(json.loads(text)), True
    except json.JSONDecodeError:
        start = JSON_RESULTS.search(text)
    if start is None:
        return {}, False
    before = json.loads(text[: start.end()] + "]}")
    return {**before, "results": list(whole_objects(text, start.end()))}, False


def whole_objects(text: str, at: int) -> Iterator[Any]:
    """Yield the whole objects of a list that is cut off, from an index inside the list."""
    decoder = json.JSONDecoder()
    gap = re.compile(r"[ ,\r\n\t]*")
    while True:
        if between := gap.match(text, at):
            at = between.end()
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield value


def row_of(run: Run, result: Result) -> Collective:
    """Make the row of a result, whose size is S already; ValueError for a negative time."""
    collective = COLLECTIVES[str(run.program)]
    time_us = number(result.own.get("time"))
    if time_us is not None and time_us < 0:
        raise ValueError(f"time {time_us:g}: allowed are times >= 0")
    operation = str(result.shared.get("redop", ""))
    dtype = str(result.shared["type"])
    num_bytes, algbw = int(result.shared["size"]), number(result.own["alg_bw"])
    return Collective(
        source="nccl-tests",
        file=run.file,
        collective=collective,
        backend="nccl",
        device="cuda",
        world_size=run.world_size,
        dtype=TYPES.get(dtype, dtype),
        reduce_op=OPERATIONS.get(operation, operation),
        payload_bytes=num_bytes,
        time_s=None if time_us is None else time_us * 1e-6,
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=number(result.own["bus_bw"]),
        in_place=result.in_place,
        status=status_by(result.own.get("nwrong")),
        estimator=f"mean over iterations, {run.over}",
        conversion=conversion(of_host="cpu_time" in result.own)
        + ("" if agree(num_bytes, time_us, algbw) else OF_OLD_SIZE),
    )


OF_OLD_SIZE = ", though it is not S / time (before July 2020 all_gather had another S)"


def agree(num_bytes: int, time_us: float | None, algbw: float | None) -> bool:
    """Return whether a bandwidth is the size over the time, as far as both are printed."""
    if not time_us or not algbw or algbw < 0.1:
        return True
    return abs(num_bytes / (time_us * 1e3) - algbw) <= OFF * algbw


def by_median(row: Collective, times: Row | None) -> Iterator[Collective]:
    """Yield a second row by the median, as ours have it, where iterations were timed apart (-I 1).

    Args:
        row: by the mean over iterations.
        times: statistics of the iterations.
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


def status_by(num_wrong: Any) -> str:
    """Judge a result by its number of wrong elements; one that is no number is invalid, too."""
    # Old versions print a deviation in another column, which is not judged.
    if num_wrong in (None, "N/A"):
        return "unchecked"
    return "ok" if number(num_wrong) == 0 else "invalid"


def conversion(of_host: bool) -> str:
    what = "time and bandwidth"
    if of_host:
        what = "time printed is the host's in calls (-C) and left out; bandwidth"
    return f"{what} as printed"
