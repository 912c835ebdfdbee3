"""Read text of the OSU micro-benchmarks, with and without -f; they print no number of ranks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from analysis.foreign.collectives import Collective, bandwidths
from analysis.foreign.timings import Output, RanksMissing, Reading, number
from benchkit.suites.collective import suite as names

TITLE = re.compile(
    r"# OSU (?P<backend>[A-Z]+)(?:-(?P<accelerator>CUDA MANAGED|[A-Z]+))?"
    r"[ _](?P<test>.+?)(?: v[\d.]\S*)?$"  # of a line without its break: linear in its length
)
BUFFERS = re.compile(r"# Send Buffer on (\w+).* and Receive Buffer on (\w+)")
DATATYPE = re.compile(r"# Datatype: (\w+)")
HEAD = re.compile(r"# (?:Size\s+)?(?:Avg )?Latency ?\(us\)")
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
LAST_CELL = re.compile(r"(\.\d\d|Pass|Fail)\s*$")
"""Ends a whole line: OSU prints two decimals."""
CHECKED = {"Pass": "ok", "Fail": "invalid"}


@dataclass(frozen=True)
class Run:
    """What the lines before a table say about it; no columns before the table begins."""

    collective: str
    backend: str
    device: str | None
    dtype: str | None = None
    columns: tuple[str, ...] = ()


def read(output: Output) -> Reading | None:
    """Read the results of one or several benchmarks; None where no line is a title of OSU's.

    Raises:
        RanksMissing: a result needs the number of ranks.
    """
    found = Reading()
    run = None
    titled = False
    torn = output.num_cut_off(LAST_CELL)
    for line in output.whole_lines(LAST_CELL):
        if title := TITLE.match(line.rstrip()):
            titled = True
            run = begun(title)
            if run is None:
                known = ", ".join(COLLECTIVES)
                why = f"{output.file}: OSU's {title['test']!r} is none of {known}"
                found.passed_over.append(why)
        elif run and line.startswith("#"):
            run = described(run, line)
        elif run and run.columns and line.lstrip()[:1].isdigit():
            if parsed := line_of(run.columns, line.split()):
                found.rows.append(row_of(output, run, parsed))
            else:
                torn += 1
    found.pass_over_torn(output.file, torn)
    return found if titled else None


def begun(title: re.Match[str]) -> Run | None:
    """Begin the run of a title; None for a benchmark that has no counterpart here."""
    if title["test"] not in COLLECTIVES:
        return None
    collective = COLLECTIVES[title["test"]]
    device: str | None = "cuda"
    if title["backend"] == "MPI" and not title["accelerator"]:
        device = "cpu"
    elif title["backend"] == "MPI" and collective == names.SEND_RECV:
        device = None  # of two ranks either may use the memory of the CPU; another line tells
    return Run(collective, title["backend"].lower(), device)


def described(run: Run, line: str) -> Run:
    """Add what a line of comment says: the type, the place of the buffers, or the columns."""
    if found := DATATYPE.match(line):
        return replace(run, dtype=TYPES.get(found[1], found[1]))
    if found := BUFFERS.match(line):
        places = {"cpu" if place == "HOST" else "cuda" for place in found.groups()}
        return replace(run, device=places.pop() if len(places) == 1 else None)
    if HEAD.match(line):
        return replace(run, columns=tuple(re.split(r"\s{2,}", line.removeprefix("# ").strip())))
    return run


@dataclass(frozen=True)
class Line:
    """What a line of a table says.

    Attributes:
        size: in bytes, as OSU counts it; 0 for a barrier.
        validation: Pass or Fail; None where the results were not checked.
    """

    size: int
    latency_us: float
    validation: str | None


def line_of(columns: tuple[str, ...], words: list[str]) -> Line | None:
    """Read a line; None where it is not whole."""
    cells: Mapping[str, str] = dict(zip(columns, words, strict=False))
    size = number(cells.get("Size", 0))
    latency_us = number(next((cells[name] for name in TIMES if name in cells), None))
    if len(words) != len(columns) or size is None or latency_us is None or latency_us < 0:
        return None
    if not 0 <= size <= MOST_BYTES:
        return None
    return Line(int(size), latency_us, cells.get("Validation"))


def row_of(output: Output, run: Run, line: Line) -> Collective:
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
    return Collective(
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
