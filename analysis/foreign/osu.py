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
"""OSU prints the size of one rank's part; for reduce_scatter, that of all parts."""
TIMES = ("Avg Latency(us)", "Latency (us)")
TYPES = {"MPI_CHAR": "int8", "MPI_INT": "int32", "MPI_FLOAT": "float32"}
MOST_BYTES = 10**18
SIZE = re.compile(r"\d+\s+-?\d+\.")
"""A line whose size is whole, and hence no first part of one whose rest looks like a row."""
CELL = re.compile(r"\d+\.\d\d")
LAST_CELL = re.compile(r"(\.\d\d|Pass|Fail)\s*$")
"""Ends a whole line: OSU prints two decimals."""
MIXED = "sizes that do not grow, or two titles before one table: of outputs at the same time"
CHECKED = {"Pass": "ok", "Fail": "invalid"}


@dataclass(frozen=True)
class OsuRun:
    """What the lines before a table say about it; no columns before the table begins."""

    collective: str
    backend: str
    device: str | None
    dtype: str | None = None
    columns: tuple[str, ...] = ()


@dataclass
class OsuTable:
    """The lines below one line of heads.

    Attributes:
        is_mixed: whether lines of two outputs stand in it, which cannot be told apart.
    """

    run: OsuRun
    is_mixed: bool
    lines: list["OsuLine"] = field(default_factory=list)

    def grows_by(self, line: "OsuLine", was_torn: bool) -> bool:
        """Return whether a line is the next, and not the rest of one that was torn."""
        return line.size > self.lines[-1].size if self.lines else not was_torn


def read(output: ForeignOutput) -> Reading:
    """Read the results of one or several benchmarks.

    Raises:
        RanksMissing: a result needs the number of ranks.
    """
    found = Reading()
    tables: list[OsuTable] = []
    run: OsuRun | None = None
    titles: list[str] = []  # since the last line of numbers
    was_torn = False
    torn = output.num_cut_off(LAST_CELL)
    for line in map(str.strip, output.whole_lines(LAST_CELL)):
        if title := TITLE.match(line):
            run = begin_run(title)
            titles.append(title["test"])
            if run is None:
                found.skipped.append(one_line(f"{output.file}: {unknown_benchmark(title['test'])}"))
        elif run and line.startswith("#"):
            run = add_comment(run, line)
            if run is None:
                why = f"a table without a title, or with heads that are not known: {line:.200}"
                found.skipped.append(one_line(f"{output.file}: {why}"))
            elif HEAD.match(line):
                tables.append(OsuTable(run, is_mixed=len(titles) > 1))
                was_torn = False
        elif run and run.columns and line[:1].isdigit():
            table = tables[-1]
            parsed = line_of(run.columns, line.split())
            if parsed and table.grows_by(parsed, was_torn):
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
            found.skipped.append(f"{output.file}: {MIXED}")
        else:
            found.rows += [row_of(output, table.run, line) for line in table.lines]
    found.pass_over_torn(output.file, torn)
    return found


def unknown_benchmark(test: str) -> str:
    return f"OSU's {test!r} is none of {', '.join(COLLECTIVES)}"


def begin_run(title: re.Match[str]) -> OsuRun | None:
    """Begin the run of a title; None for a benchmark that has no counterpart here."""
    if title["test"] not in COLLECTIVES:
        return None
    collective = COLLECTIVES[title["test"]]
    device: str | None = "cuda"
    if title["backend"] == "MPI" and not title["accelerator"]:
        device = "cpu"
    elif title["backend"] == "MPI" and collective == names.SEND_RECV:
        device = None  # of two ranks either may use the memory of the CPU; another line tells
    return OsuRun(collective, title["backend"].lower(), device)


def add_comment(run: OsuRun, line: str) -> OsuRun | None:
    """Add what a line of comment says: the type, the place of the buffers, or the columns.

    None for heads that are not known, and for a table that begins again, though neither a title
    nor another type stands before it: its title is missing.
    """
    if line.startswith("# Datatype"):
        found = DATATYPE.match(line)
        dtype = TYPES.get(found[1], found[1]) if found else None
        is_again = bool(run.columns) and dtype == run.dtype
        return replace(run, dtype=dtype, columns=()) if found and not is_again else None
    if line.startswith("# Send Buffer"):
        buffers = BUFFERS.match(line)
        on = {"cpu" if each == "HOST" else "cuda" for each in buffers.groups()} if buffers else ()
        return replace(run, device=min(on) if len(on) == 1 else None)
    if HEAD.match(line):
        columns = tuple(re.split(r"\s{2,}", line.removeprefix("# ").strip()))
        is_known = all(map(COLUMN.fullmatch, columns)) and any(name in TIMES for name in columns)
        return replace(run, columns=columns) if is_known and not run.columns else None
    return run


@dataclass(frozen=True)
class OsuLine:
    """What a line of a table says.

    Attributes:
        size: in bytes, as OSU counts it; 0 for a barrier.
        validation: Pass or Fail; None where the results were not checked.
    """

    size: int
    latency_us: float
    validation: str | None


def line_of(columns: tuple[str, ...], words: list[str]) -> OsuLine | None:
    """Read a line; None where it is not whole."""
    cells: Mapping[str, str] = dict(zip(columns, words, strict=False))
    size = cells.get("Size", "0")
    latency = next((cells[name] for name in TIMES if name in cells), "")
    if len(words) != len(columns) or not size.isdecimal() or not CELL.fullmatch(latency):
        return None
    if int(size) > MOST_BYTES or cells.get("Validation", "Pass") not in CHECKED:
        return None
    return OsuLine(int(size), float(latency), cells.get("Validation"))


def row_of(output: ForeignOutput, run: OsuRun, line: OsuLine) -> CollectiveTiming:
    """Make the row of a line of a table.

    Raises:
        RanksMissing: payload or bus bandwidth depend on the number of ranks, which is not known.
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
    """Describe how size and time were converted; the payload is `parts` times OSU's size."""
    if collective == names.BARRIER:
        return "time as printed"
    if collective == names.SEND_RECV:
        return (
            "OSU's latency is half a round trip, ours a round trip: "
            "time and S x 2; bandwidth = S / time"
        )
    size = f"OSU's size is one rank's part: S = size x {parts}" if parts > 1 else "S = OSU's size"
    return f"{size}; time as printed; bandwidth = S / time"
