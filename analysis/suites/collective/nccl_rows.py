"""Turns results of nccl-tests into rows; the results of text and of JSON have the same keys."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from analysis.records.foreign import number
from analysis.suites.collective.imported import Row
from benchkit.suites.collective.names import ALL_TO_ALL, SEND_RECV

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
        what: size, type and redop.
        body: the result out of place or in place, with the keys of JSON.
        in_place: which of both it is.
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
        collective: its name here.
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
