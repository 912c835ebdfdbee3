"""Read output of nccl-tests: text of all_reduce_perf and other programs, and the JSON of -J."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.foreign.collectives import CollectiveTiming
from analysis.foreign.timings import ROW, Cells, ForeignOutput, LinesByHeads, Reading, number
from analysis.records.paths import one_line
from analysis.records.results import Row
from benchkit.suites.collective.suite import ALL_TO_ALL, RING_SHIFT

SAME = (
    "all_gather", "all_reduce", "alltoallv", "broadcast", "gather", "hypercube", "reduce",
    "reduce_scatter", "scatter",
)  # fmt: skip
COLLECTIVES = {name: name for name in SAME} | {"alltoall": ALL_TO_ALL, "sendrecv": RING_SHIFT}
"""Collectives by program name without _perf."""
TYPES = {"half": "float16", "float": "float32", "double": "float64"}
OPERATIONS = {"prod": "product", "none": None, "": None}

PROGRAM = re.compile(rf"(?<![A-Za-z])(?<!all_)({'|'.join(COLLECTIVES)})_perf")
STRANGER = re.compile(r"(?<!\w)(\w+)_perf(?=\s|$)")
"""An unknown program, such as all_reduce_bias_perf of rccl-tests."""
OWN = re.compile(r"# Collective test (starting|concluded)(?:: (?P<program>\w+)_perf$)?")
BEGIN = re.compile(
    r"#\s*(?:nccl-tests version|Collective test starting|nThread\s|Using devices"
    r"|size\s+count\s+type\s)"
)
"""Lines that begin an output, or the header of its next table."""
OF_PROCESS = re.compile(r"# nThread (\d+) nGpus (\d+) ")
RANK = re.compile(r"#\s+Rank\s+(\d+)(?:\s+Group\s+(\d+))?\s+Pid\s")
HEAD = re.compile(r"#\s+size\s+count\s+type\s")
UNITS = re.compile(r"#\s+\(B\)\s")
KNOWN_UNITS = {"(B)", "(elements)", "(us)", "(GB/s)", "(%)"}
SIDES = re.compile(r"#\s+((?:(?:out-of|in)-place\s*)+)$")
"""The line above the headers; old versions name both sides."""
WRONG = ("#wrong", "error")
MOST_BYTES = 10**18
OFF = 0.1
"""Relative difference between a printed bandwidth and S / time that rounding explains."""
JSON_RESULTS = re.compile(r'"results"\s*:\s*\[')
AVERAGE = re.compile(r"(?:^|\s)(?:-a\s*|--average[=\s])([0-3])")
OVER_PROCESSES = (
    "of rank 0's process",
    "average over processes",
    "of the fastest process",
    "of the slowest process",
)
"""Statistics over processes, by the number of -a."""
JSON_KEYS = {"cputime": "cpu_time", "algbw": "alg_bw", "busbw": "bus_bw", "#wrong": "nwrong"}
"""Keys of JSON by column header of the text, where they differ."""
NAMELESS = "does not say which test it was; put it in the file's name, as in all_reduce_perf.txt"

MIXED = "below several starts of tests, or the end of another: one of"


@dataclass(frozen=True)
class NcclRun:
    """Common properties of all rows of a table.

    Attributes:
        program: a key of COLLECTIVES.
        world_size: number of ranks of one communicator; None if their list is incomplete.
        over: statistic over processes, in words.
    """

    file: str
    program: str
    world_size: int | None = None
    over: str = "over processes by -a (default: their average)"


@dataclass(frozen=True)
class NcclResult:
    """The in-place or out-of-place result of a size, with the keys of JSON.

    Attributes:
        shared: values common to both: size, type, redop.
        own: values of this one: time, alg_bw, bus_bw, nwrong; with -C cpu_time for time.
    """

    shared: Row
    own: Row
    in_place: bool

    def is_whole(self, program: str) -> bool:
        """Return whether size and count are consistent; a truncated size is not."""
        size, count = int(self.shared["size"]), int(self.shared["count"])
        return program == "alltoallv" or count == 0 or size % count == 0


@dataclass
class NcclTable:
    """One table, with the lines before its headers and after its rows.

    Attributes:
        started, concluded: programs that nccl-tests itself names; None for a torn line.
        command: program of the command line before the table.
        ranks: groups of each rank. A repeated number belongs to another communicator of the same
            size, of a process built without MPI.
        is_cut: whether the list of ranks is incomplete.
        columns: columns, if the headers are known.
        sides: for each result of a line, whether it is in place.
    """

    started: set[str | None] = field(default_factory=set)
    concluded: set[str | None] = field(default_factory=set)
    command: str | None = None
    ranks: dict[int, list[str]] = field(default_factory=dict)
    is_cut: bool = False
    ranks_per_process: int = 1
    columns: tuple[str, ...] = ()
    world_size: int | None = None
    sides: tuple[bool, ...] = (False, True)
    results: list[NcclResult] = field(default_factory=list)

    def next_table(self) -> "NcclTable":
        """Return the table of the next headers that have no list of ranks before them.

        Processes built without MPI list their ranks one after the other, before any of them prints
        its table.
        """
        are_several = any(len(groups) > 1 for groups in self.ranks.values())
        if self.results and not are_several:
            return NcclTable()
        return NcclTable(
            started=self.started,
            command=self.command,
            ranks=self.ranks,
            is_cut=self.is_cut,
            ranks_per_process=self.ranks_per_process,
        )

    def programs(self, default: str | None) -> set[str | None]:
        """Return the candidate programs, from the most reliable line; None for an unknown one."""
        named = self.started | self.concluded
        if self.concluded and self.concluded <= self.started:
            return self.concluded  # others failed before their tables
        return named or {self.command or default}


def read(output: ForeignOutput) -> Reading:
    """Read the tables of an output; the program is determined for each table."""
    reading = Reading()
    torn = output.num_cut_off()
    tables, command = [NcclTable()], None
    for line in map(str.strip, output.complete_lines()):
        table = tables[-1]
        words = line.split()
        if table.columns and (BEGIN.match(line) or RANK.match(line) or SIDES.match(line)):
            tables.append(table := table.next_table() if SIDES.match(line) else NcclTable())
        if status_line := OWN.match(line):
            (table.started if status_line[1] == "starting" else table.concluded).add(
                status_line["program"]
            )
        elif rank := RANK.match(line):
            table.ranks.setdefault(int(rank[1]), []).append(rank[2] or "")
        elif sides := SIDES.match(line):
            table.sides = tuple(side == "in-place" for side in sides[1].split())
        elif HEAD.match(line):
            table.columns = tuple(line.removeprefix("#").split())
            is_whole = not table.is_cut and len(table.ranks) % table.ranks_per_process == 0
            table.world_size = count_ranks(table.ranks) if is_whole else None
            table.command, command = command, None
            if not is_known(table.columns):
                reading.skipped.append(unknown_table(output.file, "heads", line))
                tables.append(NcclTable())
        elif UNITS.match(line) and not {word for word in words if "(" in word} <= KNOWN_UNITS:
            reading.skipped.append(unknown_table(output.file, "units", line))
            tables.append(NcclTable())
        elif process := OF_PROCESS.match(line):
            table.ranks_per_process = max(1, int(process[1]) * int(process[2]))
        elif line.startswith("#"):
            is_listed = bool(table.ranks) and line != "#" and "-place" not in line
            table.is_cut |= not table.columns and (is_listed or line[1:].strip() == "...")
        elif mentioned := PROGRAM.search(line) or STRANGER.search(line):
            command = mentioned[1]
        elif table.columns and words and words[0].isdigit():
            results = results_of(table.columns, words, table.sides)
            torn += not results
            table.results += results
        else:
            torn += bool(ROW.search(line))
    default = default_program(output, sum(bool(table.columns) for table in tables))
    for table in tables:
        torn += add_table(table, output.file, table.programs(default), reading)
    reading.skip_torn(output.file, torn)
    return reading


def default_program(output: ForeignOutput, num_tables: int) -> str | None:
    """Return the program in the file's name, or the only one mentioned in a file with one table."""
    name = Path(output.file).name
    mentions = {mention[1] for mention in PROGRAM.finditer(output.text)}
    if in_name := PROGRAM.search(name):
        return in_name[1]
    if num_tables == len(mentions) == 1:
        return mentions.pop()
    stranger = STRANGER.search(Path(name).stem)
    return stranger[1] if stranger else None


def add_table(table: NcclTable, file: str, programs: set[str | None], reading: Reading) -> int:
    """Add the rows of a table, or a line on why there are none; return the number of torn rows."""
    if not table.results:
        return 0
    if len(programs) > 1:
        tests = " and ".join(sorted(map(str, filter(None, programs))))
        reading.skipped.append(one_line(f"{file}: a table {MIXED} {tests}"))
        return 0
    (program,) = programs
    if program not in COLLECTIVES:
        reading.skipped.append(f"{file}: {unknown_program(program)}")
        return 0
    if table.world_size is None:
        reading.skipped.append(f"{file}: the list of devices is missing or cut: ranks unknown")
    run = NcclRun(file, program, table.world_size)
    whole = [result for result in table.results if result.is_whole(program)]
    reading.rows += [row_of(run, result) for result in whole]
    return (len(table.results) - len(whole)) // len(table.sides)


def unknown_program(program: str | None) -> str:
    return f"{program:.40}_perf is none of {', '.join(COLLECTIVES)}" if program else NAMELESS


def is_known(columns: tuple[str, ...]) -> bool:
    """Return whether each time has both bandwidths and a check, as required."""
    times = sum(name in ("time", "cputime") for name in columns)
    checks = sum(name in WRONG for name in columns)
    return times == checks == columns.count("algbw") == columns.count("busbw") > 0


def unknown_table(file: str, what: str, line: str) -> str:
    return one_line(f"{file}: a table with {what} that are not known: {line:.200}")


def count_ranks(ranks: dict[int, list[str]]) -> int | None:
    """Count the ranks of one communicator; None if numbers are missing."""
    times_met = set(map(len, ranks.values()))
    if len(times_met) != 1 or sorted(ranks) != list(range(len(ranks))):
        return None
    of_group = [groups[0] for groups in ranks.values()]
    return of_group.count(of_group[0])


def results_of(
    columns: tuple[str, ...], words: list[str], sides: tuple[bool, ...]
) -> list[NcclResult]:
    """Split a line into its out-of-place and in-place results; [] if it is incomplete."""
    names = [name for name in columns if name != "timestamp"]
    count = len(words) - 2 * (len(columns) - len(names))  # a timestamp is two words
    one_less = count == len(names) - 1
    if one_less and "redop" in names and number(words[names.index("redop")]) is not None:
        names.remove("redop")  # may be blank
    times = [index for index, name in enumerate(names) if name in ("time", "cputime")]
    if count != len(names) or len(times) != len(sides):
        return []
    pairs = list(zip(names, words, strict=False))
    shared = dict(pairs[: times[0]])
    results = []
    for start, end, in_place in zip(times, [*times[1:], len(pairs)], sides, strict=True):
        cells = dict(pairs[start:end])
        if None in (number(cells["algbw"]), number(cells["busbw"])):
            return []
        if (number(cells.get("time")) or 0) < 0 or not is_payload(shared):
            return []
        results.append(NcclResult(shared, with_json_keys(cells), in_place))
    return results


def is_payload(shared: Mapping[str, str]) -> bool:
    size, count, dtype = shared["size"], shared["count"], shared["type"]
    return count.isdecimal() and dtype[0].isalpha() and 0 <= int(size) <= MOST_BYTES


def with_json_keys(cells: Mapping[str, str]) -> dict[str, str]:
    return {JSON_KEYS.get(name, name): value for name, value in cells.items()}


def read_cloudai_line(file: str, cells: Cells) -> Iterator[CollectiveTiming]:
    """Yield the rows of a line of the CSV that github.com/NVIDIA/cloudai makes from the text."""
    program = PROGRAM.search(Path(file).name)
    if program is None:
        raise ValueError(NAMELESS)
    run = NcclRun(file, program[1], world_size=cells.whole("Ranks", least=0) or None)
    shared = {"size": cells["Size (B)"], "type": cells["Type"], "redop": cells["Redop"]}
    for side, in_place in (("Out-of-place", False), ("In-place", True)):
        values = {
            "time": cells[f"Time (us) {side}"],
            "alg_bw": cells[f"Algbw (GB/s) {side}"],
            "bus_bw": cells[f"Busbw (GB/s) {side}"],
            "nwrong": cells[f"#Wrong {side}"],
        }
        yield row_of(run, NcclResult(shared, values, in_place))


CSV: LinesByHeads = {
    frozenset({"Size (B)", "Time (us) Out-of-place", "#Wrong In-place", "Ranks"}): read_cloudai_line
}


def read_json(output: ForeignOutput) -> Reading | None:
    """Read the file of -J; None for another file."""
    if '"nccl_version"' not in output.text:
        return None
    content, is_complete = decode_json(output.text)
    config = content.get("config", {})
    arguments = " ".join(map(str, content.get("args", ())))
    devices = config.get("devices", ())
    mentioned = PROGRAM.search(arguments) or STRANGER.search(arguments)
    program = mentioned[1] if mentioned else default_program(output, 1)
    average = AVERAGE.search(arguments)
    # One device is listed per process.
    processes = sum(device["group"] == devices[0]["group"] for device in devices)
    reading = Reading()
    if not is_complete:
        reading.skipped.append(f"{output.file}: cut off; what is whole of it is read")
    if program not in COLLECTIVES:
        reading.skipped.append(f"{output.file}: {unknown_program(program)}")
        return reading
    run = NcclRun(
        output.file,
        program,
        world_size=processes * config["nthreads"] * config["ngpus"] if processes else None,
        over=OVER_PROCESSES[int(average[1]) if average else 1],
    )
    torn = 0
    for content_of_size in content.get("results", ()):
        for side, in_place in (("out_of_place", False), ("in_place", True)):
            if values := content_of_size.get(side):
                try:
                    row = row_of(run, NcclResult(content_of_size, values, in_place))
                except ValueError:
                    torn += 1
                    continue
                per_iteration = content_of_size.get(f"{side}_per_iter")
                reading.rows += [row, *median_timings(row, per_iteration)]
    reading.skip_torn(output.file, torn)
    return reading


def decode_json(text: str) -> tuple[Row, bool]:
    """Decode a JSON document, and return whether it is complete.

    A truncated one gives everything before the results, and all complete results.
    """
    try:
        return dict(json.loads(text)), True
    except json.JSONDecodeError:
        start = JSON_RESULTS.search(text)
    if start is None:
        return {}, False
    without_results = json.loads(text[: start.end()] + "]}")
    return {**without_results, "results": list(whole_objects(text, start.end()))}, False


def whole_objects(text: str, at: int) -> Iterator[Any]:
    """Yield the complete objects of a truncated list, from an index inside the list."""
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


def row_of(run: NcclRun, result: NcclResult) -> CollectiveTiming:
    """Return the row of a result, whose size is S; ValueError for a negative time."""
    collective = COLLECTIVES[run.program]
    time_us = number(result.own.get("time"))
    if time_us is not None and time_us < 0:
        raise ValueError(f"time {time_us:g}: allowed are times >= 0")
    operation = str(result.shared.get("redop", ""))
    dtype = str(result.shared["type"])
    num_bytes, algbw = int(result.shared["size"]), number(result.own["alg_bw"])
    return CollectiveTiming(
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
        + ("" if is_consistent(num_bytes, time_us, algbw) else OF_OLD_SIZE),
    )


OF_OLD_SIZE = ", though it is not S / time (before July 2020 all_gather had another S)"


def is_consistent(num_bytes: int, time_us: float | None, algbw: float | None) -> bool:
    """Return whether a bandwidth is the size over the time, within rounding, or one is missing."""
    if not time_us or not algbw or algbw < 0.1:
        return True
    return abs(num_bytes / (time_us * 1e3) - algbw) <= OFF * algbw


def median_timings(row: CollectiveTiming, times: Row | None) -> Iterator[CollectiveTiming]:
    """Yield a second row with the median, as in our records, if each iteration was timed (-I 1).

    Args:
        row: row with the mean over iterations.
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
    """Return the status of a result by its number of wrong elements; a non-number is invalid."""
    # Old versions print a deviation in another column, which is not judged.
    if num_wrong in (None, "N/A"):
        return "unchecked"
    return "ok" if number(num_wrong) == 0 else "invalid"


def conversion(of_host: bool) -> str:
    what = "time and bandwidth"
    if of_host:
        what = "time printed is the host's in calls (-C) and left out; bandwidth"
    return f"{what} as printed"
