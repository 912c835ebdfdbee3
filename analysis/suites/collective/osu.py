"""Reads text of the OSU micro-benchmarks, with and without -f; they print no number of ranks."""

import re
from dataclasses import dataclass, replace

from analysis.records.foreign import Reading, number, unfinished, whole_lines
from analysis.suites.collective.imported import RanksMissing, Row
from benchkit.suites.collective import suite as names
from benchkit.suites.collective.suite import bus_factor

TITLE = re.compile(
    r"# OSU (?P<backend>[A-Z]+)(?:-(?P<accelerator>CUDA MANAGED|[A-Z]+))?"
    r"[ _](?P<test>.+?)(?: v[\d.]+\S*)?\s*$"
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
"""Collectives of which OSU prints the size of one rank's part.

For reduce_scatter it prints the size of all parts.
"""
TIMES = ("Avg Latency(us)", "Latency (us)")
TYPES = {"MPI_CHAR": "int8", "MPI_INT": "int32", "MPI_FLOAT": "float32"}
CHECKED = {"Pass": "ok", "Fail": "invalid"}


@dataclass(frozen=True)
class Run:
    """What the lines before a table say about it.

    Attributes:
        columns: the heads of the table, () before the table begins.
    """

    collective: str
    backend: str
    device: str | None
    dtype: str | None = None
    columns: tuple[str, ...] = ()


def read(file: str, text: str, ranks: int | None) -> Reading | None:
    """Read all results in a text; None where no line is a title of OSU's.

    Args:
        file: where the text is from.
        text: the output of one or several benchmarks.
        ranks: how many ranks there were; None where that is not known.

    Raises:
        RanksMissing: a result needs the number of ranks.
    """
    found = Reading()
    run = None
    titled = False
    torn = unfinished(text)
    for line in whole_lines(text):
        if title := TITLE.match(line):
            titled = True
            run = started(title)
            if run is None:
                known = ", ".join(COLLECTIVES)
                found.passed_over.append(f"{file}: OSU's {title['test']!r} is none of {known}")
        elif run and line.startswith("#"):
            run = described(run, line)
        elif run and run.columns and line.lstrip()[:1].isdigit():
            if figures := figures_of(run.columns, line.split()):
                found.rows.append(row_of(file, run, figures, ranks))
            else:
                torn += 1
    if torn:
        found.passed_over.append(f"{file}: {torn} line(s) cut off or torn")
    return found if titled else None


def started(title: re.Match[str]) -> Run | None:
    """Begin the run of a title; None for a benchmark that has no counterpart here.

    Where `-d` names an accelerator, collectives use its memory. Between two ranks, another line
    says which of them use it.
    """
    if title["test"] not in COLLECTIVES:
        return None
    collective = COLLECTIVES[title["test"]]
    device: str | None = "cuda"
    if title["backend"] == "MPI" and not title["accelerator"]:
        device = "cpu"
    elif title["backend"] == "MPI" and collective == names.SEND_RECV:
        device = None
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
class Figures:
    """The figures in a line of a table.

    Attributes:
        size: in bytes, as OSU counts it; 0 for a barrier.
        latency_us: in microseconds.
        validation: Pass or Fail; None where the results were not checked.
    """

    size: int
    latency_us: float
    validation: str | None


def figures_of(columns: tuple[str, ...], words: list[str]) -> Figures | None:
    """Read the figures of a line; None where the line is not whole."""
    cells = dict(zip(columns, words, strict=False))
    size = number(cells.get("Size", 0))
    latency_us = number(next((cells[name] for name in TIMES if name in cells), None))
    if len(words) != len(columns) or size is None or latency_us is None or latency_us < 0:
        return None
    return Figures(int(size), latency_us, cells.get("Validation"))


def row_of(file: str, run: Run, figures: Figures, ranks: int | None) -> Row:
    """Make a row of a line of a table.

    Raises:
        RanksMissing: payload or bus bandwidth depend on the number of ranks, which is not known.
    """
    name = run.collective
    both_ways = name == names.SEND_RECV
    if ranks is None and (name in names.SHARED_OUT or name == names.ALL_REDUCE):
        raise RanksMissing(
            f"{file}: OSU prints no number of ranks, without which {name} has no bus bandwidth"
        )
    world_size = 2 if both_ways else ranks
    times = world_size if world_size and (both_ways or name in SIZED_BY_PART) else 1
    payload_bytes = None if name == names.BARRIER else figures.size * times
    time_s = figures.latency_us * 1e-6 * (2 if both_ways else 1)
    algbw = payload_bytes / time_s / 1e9 if payload_bytes and time_s else None
    factor = bus_factor(name, world_size or 2)
    return Row(
        source="osu",
        file=file,
        collective=name,
        backend=run.backend,
        device=run.device,
        world_size=world_size,
        dtype=run.dtype,
        reduce_op="sum" if name in names.REDUCTIONS else None,
        payload_bytes=payload_bytes,
        time_s=time_s,
        osu_mean_s=time_s,
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=algbw * factor if algbw and factor else None,
        in_place=None,
        status=CHECKED.get(str(figures.validation), "unchecked"),
        estimator="mean over iterations, " + ("on rank 0" if both_ways else "average over ranks"),
        conversion=conversion(name, times),
    )


def conversion(collective: str, times: int) -> str:
    """Describe how size and time were converted; the payload is `times` OSU's size."""
    if collective == names.BARRIER:
        return "time as printed"
    if collective == names.SEND_RECV:
        return (
            "OSU's latency is half a round trip, ours a round trip: "
            "time and S x 2; bandwidth = S / time"
        )
    part = f"OSU's size is one rank's part: S = size x {times}" if times > 1 else "S = OSU's size"
    return f"{part}; time as printed; bandwidth = S / time"
