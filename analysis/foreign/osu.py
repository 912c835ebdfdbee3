"""Read text of the OSU micro-benchmarks, with and without -f; they print no number of ranks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from analysis.foreign.collectives import CollectiveTiming, bandwidths
from analysis.foreign.timings import ROW, ForeignOutput, RanksMissing, Reading
from analysis.records.paths import one_line
from benchkit.suites.collective import suite as names

BEGIN = re.compile(r"# OSU [A-Z]")
TITLE = re.compile(
    r"# OSU (?P<backend>[A-Z]+)(?:-(?P<accelerator>CUDA MANAGED|[A-Z]+))?"
    r"[ _](?P<test>.+?)(?: v[\d.]\S*)?$"  # of a line without its break: linear in its length
)
BUFFERS = re.compile(r"# Send Buffer on (\w+) \(\w\) and Receive Buffer on (\w+) \(\w\)$")
DATATYPE = re.compile(r"# Datatype: (\w+)\.$")
HEAD = re.compile(r"# (?:Size\s|(?:Avg )?Latency)")
COLUMN = re.compile(
    r"Size|(?:(?:Avg|Min|Max) )?Latency ?\(us\)|Iterations|Validation|P\d+ Tail Lat\(us\)"
)
COLLECTIVES = {
    "Allreduce Latency Test": names.ALL_REDUCE,
    "Allgather Latency Test": names.ALL_GATHER,
    "Reduce_scatter Latency Test": names.REDUCE_SCATTER,
    "Broadcast Latency Test": names.BROADCAST,
    "Reduce Latency Test": names.REDUCE,
    "Gather Latency Test": names.GATHER,
    "Scatter Latency Test": names.SCATTER,
    "All-to-All Personalized Exchange Latency Test": names.ALL_TO_ALL,
    "Latency Test": names.SEND_RECV,
    "Barrier Latency Test": names.BARRIER,
}
SIZED_BY_PART = (names.ALL_GATHER, names.GATHER, names.SCATTER, names.ALL_TO_ALL)
"""OSU prints the size of one rank's part of these; for reduce_scatter, that of all parts."""
TIMES = ("Avg Latency(us)", "Latency (us)")
TYPES = {"MPI_CHAR": "int8", "MPI_INT": "int32", "MPI_FLOAT": "float32"}
MOST_BYTES = 10**18
SIZE = re.compile(r"\d+\s+-?\d+\.")
"""A line with a complete size; its rest, if torn off, would not look like a row."""
CELL = re.compile(r"\d+\.\d\d")
LAST_CELL = re.compile(r"(\.\d\d|Pass|Fail)\s*$")
"""End of a complete line: OSU prints two decimals."""
MIXED = "sizes that do not grow, or two titles before one table: of outputs at the same time"
CHECKED = {"Pass": "ok", "Fail": "invalid"}


@dataclass(frozen=True)
class OsuRun:
    """Settings from the lines before a table; `columns` is empty before its headers."""

    collective: str
    backend: str
    device: str | None
    dtype: str | None = None
    columns: tuple[str, ...] = ()


@dataclass
class OsuTable:
    """The lines below one line of headers.

    Attributes:
        is_mixed: whether it has lines of two outputs, which cannot be distinguished.
    """

    run: OsuRun
    is_mixed: bool
    lines: list["OsuLine"] = field(default_factory=list)

    def is_next(self, line: "OsuLine", was_torn: bool) -> bool:
        """Return whether a line is the next one, and not the rest of a torn one."""
        return line.size > self.lines[-1].size if self.lines else not was_torn


def read(output: ForeignOutput) -> Reading:
    """Read the results of one or several benchmarks.

    Raises:
        RanksMissing: a result requires the number of ranks.
    """
    reading = Reading()
    tables: list[OsuTable] = []
    run: OsuRun | None = None
    titles: list[str] = []  # since the last line of numbers
    was_torn = False
    torn = output.num_cut_off(LAST_CELL)
    for line in map(str.strip, output.complete_lines(LAST_CELL)):
        if title := TITLE.match(line):
            run = begin_run(title)
            titles.append(title["test"])
            if run is None:
                reading.skipped.append(
                    one_line(f"{output.file}: {unknown_benchmark(title['test'])}")
                )
        elif run and line.startswith("#"):
            run = add_comment(run, line)
            if run is None:
                why = f"a table without a title, or with heads that are not known: {line:.200}"
                reading.skipped.append(one_line(f"{output.file}: {why}"))
            elif HEAD.match(line):
                tables.append(OsuTable(run, is_mixed=len(titles) > 1))
                was_torn = False
        elif run and run.columns and line[:1].isdigit():
            table = tables[-1]
            parsed = line_of(run.columns, line.split())
            if parsed and table.is_next(parsed, was_torn):
                table.lines.append(parsed)
                titles = []
            else:
                table.is_mixed |= bool(parsed) and not was_torn
                torn += 1
            was_torn = not SIZE.match(line)
        elif ROW.search(line):
            is_of_unknown = bool(titles) and run is None
            torn += not is_of_unknown
            titles = titles[-1:]
    for table in tables:
        if table.is_mixed:
            reading.skipped.append(f"{output.file}: {MIXED}")
        else:
            reading.rows += [row_of(output, table.run, line) for line in table.lines]
    reading.skip_torn(output.file, torn)
    return reading


def unknown_benchmark(test: str) -> str:
    return f"OSU's {test!r} is none of {', '.join(COLLECTIVES)}"


def begin_run(title: re.Match[str]) -> OsuRun | None:
    """Return the run of a title; None for a benchmark without a counterpart here."""
    if title["test"] not in COLLECTIVES:
        return None
    collective = COLLECTIVES[title["test"]]
    device: str | None = "cuda"
    if title["backend"] == "MPI" and not title["accelerator"]:
        device = "cpu"
    elif title["backend"] == "MPI" and collective == names.SEND_RECV:
        device = None  # either rank may use host memory; another line states it
    return OsuRun(collective, title["backend"].lower(), device)


def add_comment(run: OsuRun, line: str) -> OsuRun | None:
    """Add the content of a comment line: the type, the memory of the buffers, or the columns.

    Returns None for unknown headers, and for a further table without a new title or type: its
    title is missing.
    """
    if line.startswith("# Datatype"):
        match = DATATYPE.match(line)
        dtype = TYPES.get(match[1], match[1]) if match else None
        is_again = bool(run.columns) and dtype == run.dtype
        return replace(run, dtype=dtype, columns=()) if match and not is_again else None
    if line.startswith("# Send Buffer"):
        buffers = BUFFERS.match(line)
        devices = (
            {"cpu" if memory == "HOST" else "cuda" for memory in buffers.groups()}
            if buffers
            else ()
        )
        return replace(run, device=min(devices) if len(devices) == 1 else None)
    if HEAD.match(line):
        columns = tuple(re.split(r"\s{2,}", line.removeprefix("# ").strip()))
        is_known = all(map(COLUMN.fullmatch, columns)) and any(name in TIMES for name in columns)
        return replace(run, columns=columns) if is_known and not run.columns else None
    return run


@dataclass(frozen=True)
class OsuLine:
    """The values of a line of a table.

    Attributes:
        size: bytes as OSU counts them; 0 for a barrier.
        validation: Pass or Fail; None if results were not checked.
    """

    size: int
    latency_us: float
    validation: str | None


def line_of(columns: tuple[str, ...], words: list[str]) -> OsuLine | None:
    """Parse a line; None if it is incomplete."""
    cells: Mapping[str, str] = dict(zip(columns, words, strict=False))
    size = cells.get("Size", "0")
    latency = next((cells[name] for name in TIMES if name in cells), "")
    if len(words) != len(columns) or not size.isdecimal() or not CELL.fullmatch(latency):
        return None
    if int(size) > MOST_BYTES or cells.get("Validation", "Pass") not in CHECKED:
        return None
    return OsuLine(int(size), float(latency), cells.get("Validation"))


def row_of(output: ForeignOutput, run: OsuRun, line: OsuLine) -> CollectiveTiming:
    """Return the row of a line of a table.

    Raises:
        RanksMissing: payload or bus bandwidth depend on the unknown number of ranks.
    """
    name = run.collective
    both_ways = name == names.SEND_RECV
    if output.ranks is None and (name in names.SHARED_OUT or name == names.ALL_REDUCE):
        raise RanksMissing(
            f"{output.file}: OSU prints no number of ranks, without which {name} has no bus "
            "bandwidth"
        )
    world_size = 2 if both_ways else output.ranks
    parts = world_size if world_size and (both_ways or name in SIZED_BY_PART) else 1
    payload_bytes = None if name == names.BARRIER else line.size * parts
    time_s = line.latency_us * 1e-6 * (2 if both_ways else 1)
    return CollectiveTiming(
        source="osu",
        file=output.file,
        collective=name,
        backend=run.backend,
        device=run.device,
        world_size=world_size,
        dtype=run.dtype,
        reduce_op="sum" if name in names.REDUCTIONS else None,
        payload_bytes=payload_bytes,
        time_s=time_s,
        osu_mean_s=time_s,
        **bandwidths(name, payload_bytes, time_s, world_size or 2),
        in_place=None,
        status=CHECKED.get(str(line.validation), "unchecked"),
        estimator="mean over iterations, " + ("on rank 0" if both_ways else "average over ranks"),
        conversion=conversion(name, parts),
    )


def conversion(collective: str, parts: int) -> str:
    """Describe the conversion of size and time; the payload is `parts` times OSU's size."""
    if collective == names.BARRIER:
        return "time as printed"
    if collective == names.SEND_RECV:
        return (
            "OSU's latency is half a round trip, ours a round trip: "
            "time and S x 2; bandwidth = S / time"
        )
    size = f"OSU's size is one rank's part: S = size x {parts}" if parts > 1 else "S = OSU's size"
    return f"{size}; time as printed; bandwidth = S / time"
