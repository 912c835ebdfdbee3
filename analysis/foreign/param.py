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
"""The lookaheads keep matching linear in the length of the line."""
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
"""End of a complete line: the total time has one decimal."""


def read(output: ForeignOutput) -> Reading:
    """Read all results of an output."""
    reading = Reading()
    backend, world_size = None, output.ranks
    columns: tuple[str, ...] | None = None
    torn = output.num_cut_off(LAST_CELL)
    unknown_names: set[str] = set()
    for line in output.complete_lines(LAST_CELL):
        if world_line := WORLD.match(line):
            world_size = int(world_line[1]) if int(world_line[1]) > 0 else output.ranks
        elif backend_line := BACKEND.match(line):
            backend = backend_line[1]
        elif HEAD.match(line):
            columns = COLUMNS if UNITS.issubset(line.split()) else ()
        elif columns is not None and (result := LINE.match(line)):
            name, dtype, numbers = result.groups()
            if not columns or name not in COLLECTIVES:
                unknown_names.add(name)
            elif row := row_of(
                output, backend, world_size, COLLECTIVES[name], dtype, numbers.split()
            ):
                reading.rows.append(row)
            else:
                torn += 1
        else:
            torn += bool(ROW.search(line))
    if reading.rows and None in (backend, world_size):
        reading.skipped.append(f"{output.file}: the line that tells backend or ranks is missing")
    reading.skip_torn(output.file, torn)
    for name in sorted(unknown_names):
        names_known = ", ".join(COLLECTIVES)
        reading.skipped.append(
            f"{output.file}: PARAM's {name}; read are {names_known} without -z 1"
        )
    return reading


def row_of(
    output: ForeignOutput,
    backend: str | None,
    world_size: int | None,
    collective: str,
    dtype: str,
    words: list[str],
) -> CollectiveTiming | None:
    """Return the row of a line, whose size is S; None if it is incomplete."""
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
