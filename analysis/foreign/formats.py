"""The formats of other systems: what reads their files, and what writes them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd

from analysis.foreign import cs336, ddlb, hetero, nccl_tests, osu, param
from analysis.foreign.collectives import Collective
from analysis.foreign.timings import Output, Reading, Timing, read_csv
from analysis.records.harvest import harvest
from analysis.suites.tensor_parallel import ddlb_csv
from analysis.suites.tensor_parallel.table import SUITES

KNOWN = (
    "nccl-tests (text, JSON, cloudai's CSV), OSU, PARAM, CS336 (all-reduce CSV, transformer JSON), "
    "DDLB, hpml_testing"
)
READERS: tuple[Callable[[Output], Reading | None], ...] = (
    nccl_tests.read,
    cs336.read_json,
    partial(read_csv, formats=cs336.CSV | ddlb.CSV | hetero.CSV | nccl_tests.CSV),
    osu.read,
    param.read,
)
"""Each returns None for a file of another format."""
RECORDED: dict[str, type[Timing]] = {
    **{
        row.SUITE: row
        for row in (Collective, cs336.Step, hetero.Ring, hetero.Matmul, hetero.Decoder)
    },
    **dict.fromkeys(SUITES, ddlb.Product),
}
"""What a row of our records becomes, by suite."""
WRITERS: dict[str, tuple[Callable[[pd.DataFrame], dict[str, str]], ...]] = {
    "ddlb": (ddlb_csv.write,),
    "cs336": (cs336.export_all_reduces, cs336.export_models),
    "hetero": (hetero.export_rings, hetero.export_matmuls, hetero.export_decoders),
}
"""What writes the files of a system, by its name: their texts by their names."""


def read(output: Output) -> Reading | None:
    """Read a file of any format; None where it has none of them.

    Raises:
        RanksMissing: the output does not say how many ranks it is of, nor does the user.
    """
    readings = (reader(output) for reader in READERS)
    return next((reading for reading in readings if reading is not None), None)


def read_records(place: Path) -> Reading:
    """Read our records at or below a place, of suites whose cases other systems time, too."""
    found = harvest([place])
    result = Reading(passed_over=[*found.remarks()])
    for row in found.rows:
        if row["suite"] not in RECORDED:
            continue
        try:
            timing = RECORDED[row["suite"]].of_record(row)
        except (LookupError, TypeError, ValueError) as error:
            why = f"not a record of {row['suite']} ({type(error).__name__}: {error})"
            result.passed_over.append(f"{row['path']}: {why}")
            continue
        if timing is not None:
            result.rows.append(timing)
    if not result.rows and not result.passed_over:
        result.passed_over.append(f"{place}: no record of suite {', '.join(RECORDED)}")
    return result
