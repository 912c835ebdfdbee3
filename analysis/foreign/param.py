"""Read text of PARAM's collective benchmark (github.com/facebookresearch/param, train/comms/pt)."""

import re

from analysis.foreign.collectives import CollectiveTiming
from analysis.foreign.timings import ROW, ForeignOutput, Reading, number, status_of
from benchkit.suites.collective import suite as names

BEGIN = re.compile(r"PARAM COMM environment: |backend: \w+ nw-stack:|COMMS-RES")
WORLD = re.compile(r"\s*PARAM COMM environment: .*'world_size': (-?\d+)")
BACKEND = re.compile(r"\s*backend: (\w+) nw-stack:")
HEAD = re.compile(r"\s*COMMS-RES(-QUANT)?\s.*\((?:B|us)\)")
LINE = re.compile(r"\s*COMMS-RES-(?:QUANT\s+)?(\w+)-([a-z]+(?![a-z])\d*(?!\d))\S*\s+(\d.*)")
"""The looks ahead keep matching linear in the line's length."""
UNITS = {"(B)", "Time(us):p50", "AlgBW(GB/s)", "BusBW(GB/s)"}
COLUMNS = ("size", "elements", "p50", "p75", "p95", "min", "max", "algbw", "busbw", "total")
COLLECTIVES = {
    "all_reduce": names.ALL_REDUCE,
    **dict.fromkeys(("all_gather", "all_gather_base"), names.ALL_GATHER),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_base"), names.REDUCE_SCATTER),
    **dict.fromkeys(("all_to_all", "all_to_all_single"), names.ALL_TO_ALL),
    "broadcast": names.BROADCAST,
    "reduce": names.REDUCE,
    "gather": names.GATHER,
    "scatter": names.SCATTER,
}
LAST_CELL = re.compile(r"\d\.\d\s*$")
"""Ends a whole line: the total time has one decimal."""


def read(output: ForeignOutput) -> Reading:
    """Read all results."""
    found = Reading()
    backend, world_size = None, output.ranks
    columns: tuple[str, ...] | None = None
    torn = output.num_cut_off(LAST_CELL)
    others: set[str] = set()
    for line in output.whole_lines(LAST_CELL):
        if world := WORLD.match(line):
            world_size = int(world[1]) if int(world[1]) > 0 else output.ranks
        elif said := BACKEND.match(line):
            backend = said[1]
        elif HEAD.match(line):
            columns = COLUMNS if UNITS.issubset(line.split()) else ()
        elif columns is not None and (result := LINE.match(line)):
            name, dtype, rest = result.groups()
            if not columns or name not in COLLECTIVES:
                others.add(name)
            elif row := row_of(output, backend, world_size, COLLECTIVES[name], dtype, rest.split()):
                found.rows.append(row)
            else:
                torn += 1
        else:
            torn += bool(ROW.search(line))
    if found.rows and None in (backend, world_size):
        found.skipped.append(f"{output.file}: the line that tells backend or ranks is missing")
    found.pass_over_torn(output.file, torn)
    for name in sorted(others):
        known = ", ".join(COLLECTIVES)
        found.skipped.append(f"{output.file}: PARAM's {name}; read are {known} without -z 1")
    return found


def row_of(
    output: ForeignOutput,
    backend: str | None,
    world_size: int | None,
    collective: str,
    dtype: str,
    words: list[str],
) -> CollectiveTiming | None:
    """Make the row of a line, whose size is S already; None where it is not whole."""
    cells = {name: number(word) for name, word in zip(COLUMNS, words, strict=False)}
    if len(words) != len(COLUMNS) or None in cells.values():
        return None
    time_s = (cells["p50"] or 0) * 1e-6 or None
    return CollectiveTiming(
        source="param",
        file=output.file,
        collective=collective,
        backend=backend,
        world_size=world_size,
        dtype=dtype,
        reduce_op="sum" if collective in names.REDUCTIONS else None,
        payload_bytes=int(words[0]),
        time_s=time_s,
        algbw_gb_per_s=cells["algbw"],
        busbw_gb_per_s=cells["busbw"],
        in_place=None,
        status=status_of(time_s),
        estimator="mean over iterations, median over ranks",
        conversion="time and bandwidth as printed",
    )
