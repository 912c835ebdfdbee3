"""Text of the OSU micro-benchmarks, with and without -f. They print no number of ranks."""

import re
from dataclasses import dataclass, replace

from analysis.suites.collective.imported import RanksMissing, Reading, Row, number, unfinished, whole_lines
from benchkit.suites.collective.sizes import REDUCTIONS, SHARED_OUT, bus_factor

TITLE = re.compile(
    r"# OSU (?P<backend>[A-Z]+)(?:-(?P<accelerator>CUDA MANAGED|[A-Z]+))?[ _](?P<test>.+?)(?: v[\d.]+\S*)?\s*$"
)
BUFFERS = re.compile(r"# Send Buffer on (\w+).* and Receive Buffer on (\w+)")
DATATYPE = re.compile(r"# Datatype: (\w+)")
HEAD = re.compile(r"# (?:Size\s+)?(?:Avg )?Latency ?\(us\)")
COLLECTIVES = {
    "Allreduce Latency Test": "all_reduce",
    "Allgather Latency Test": "all_gather",
    "Reduce_scatter Latency Test": "reduce_scatter",
    "Broadcast Latency Test": "broadcast",
    "Reduce Latency Test": "reduce",
    "Gather Latency Test": "gather",
    "Scatter Latency Test": "scatter",
    "All-to-All Personalized Exchange Latency Test": "all_to_all",
    "Latency Test": "send_recv",
    "Barrier Latency Test": "barrier",
}
SIZED_BY_PART = ("all_gather", "gather", "scatter", "all_to_all")
"""Of which OSU prints the size of one rank's part; of reduce_scatter it prints that of all parts."""
TIMES = ("Avg Latency(us)", "Latency (us)")
TYPES = {"MPI_CHAR": "int8", "MPI_INT": "int32", "MPI_FLOAT": "float32"}
CHECKED = {"Pass": "ok", "Fail": "invalid"}


@dataclass(frozen=True)
class Run:
    """What the lines before a table say of it. columns: the heads of the table, () before it."""

    collective: str
    backend: str
    device: str | None
    dtype: str | None = None
    columns: tuple[str, ...] = ()


def read(file: str, text: str, ranks: int | None) -> Reading | None:
    """All results in a text, None where no line is a title of OSU's; ranks: how many there were, None: not known.

    Raises RanksMissing.
    """
    found, run, titled, torn = Reading(), None, False, unfinished(text)
    for line in whole_lines(text):
        if title := TITLE.match(line):
            titled, run = True, started(title)
            if run is None:
                found.passed_over.append(f"{file}: OSU's {title['test']!r} is none of {', '.join(COLLECTIVES)}")
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
    """The run that a title begins; None for a benchmark that has no counterpart here.

    Where `-d` names an accelerator, collectives use its memory; between two ranks, another line says who does.
    """
    if title["test"] not in COLLECTIVES:
        return None
    collective, on_host = COLLECTIVES[title["test"]], title["backend"] == "MPI" and not title["accelerator"]
    unclear = collective == "send_recv" and title["backend"] == "MPI" and not on_host
    return Run(collective, title["backend"].lower(), None if unclear else "cpu" if on_host else "cuda")


def described(run: Run, line: str) -> Run:
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
    """What a line of a table says: bytes (0 of a barrier), microseconds, Pass or Fail (None: not looked at)."""

    size: int
    latency_us: float
    validation: str | None


def figures_of(columns: tuple[str, ...], words: list[str]) -> Figures | None:
    """None where the line is not whole."""
    cells = dict(zip(columns, words, strict=False))
    size, latency_us = (
        number(cells.get("Size", 0)),
        number(next((cells[name] for name in TIMES if name in cells), None)),
    )
    if len(words) != len(columns) or size is None or latency_us is None:
        return None
    return Figures(int(size), latency_us, cells.get("Validation"))


def row_of(file: str, run: Run, figures: Figures, ranks: int | None) -> Row:
    """A line of a table. Raises RanksMissing where payload or bus bandwidth depend on the number of ranks."""
    name, both_ways = run.collective, run.collective == "send_recv"
    if ranks is None and (name in SHARED_OUT or name == "all_reduce"):
        raise RanksMissing(f"{file}: OSU prints no number of ranks, without which {name} has no bus bandwidth")
    world_size = 2 if both_ways else ranks
    times = world_size if world_size and (both_ways or name in SIZED_BY_PART) else 1
    payload_bytes = None if name == "barrier" else figures.size * times
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
        reduce_op="sum" if name in REDUCTIONS else None,
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
    if collective == "barrier":
        return "time as printed"
    if collective == "send_recv":
        return "OSU's latency is half a round trip, ours a round trip: time and S x 2; bandwidth = S / time"
    part = f"OSU's size is one rank's part: S = size x {times}" if times > 1 else "S = OSU's size"
    return f"{part}; time as printed; bandwidth = S / time"
