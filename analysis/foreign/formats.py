"""Lists the formats of other systems: what reads their files, and what writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.foreign import (
    collectives,
    cs336,
    cs336_json,
    ddlb,
    hetero,
    hetero_lut,
    hetero_model,
    nccl_tests,
    osu,
)
from analysis.foreign.timings import Reading, Timing
from analysis.records.harvest import harvest
from analysis.suites.tensor_parallel import ddlb_csv
from analysis.suites.tensor_parallel.table import SUITES

KNOWN = "nccl-tests, OSU, CS336 (all-reduce CSV, transformer JSON), DDLB, hpml_testing"
READERS: tuple[Callable[[str, str], Reading | None], ...] = (
    nccl_tests.read, cs336.read, cs336_json.read, ddlb.read, hetero.read,
    hetero_lut.read, hetero_model.read,
)  # fmt: skip
"""One per format; each returns None for a file of another format."""
RECORDED: dict[str, Callable[[Mapping[str, Any]], Timing | None]] = {
    collectives.Row.SUITE: collectives.row_of,
    cs336_json.Step.SUITE: cs336_json.recorded,
    hetero.Ring.SUITE: hetero.recorded,
    hetero_lut.Matmul.SUITE: hetero_lut.recorded,
    hetero_model.Decoder.SUITE: hetero_model.recorded,
    **dict.fromkeys(SUITES, ddlb.recorded),
}
"""What converts a row of our records, by suite."""
WRITERS: dict[str, tuple[Callable[[pd.DataFrame], dict[str, str]], ...]] = {
    "ddlb": (ddlb_csv.write,),
    "cs336": (cs336.export, cs336_json.export),
    "hetero": (hetero.export, hetero_lut.export, hetero_model.export),
}
"""What writes the files of a system, by its name."""


def read(file: str, text: str, ranks: int | None) -> Reading | None:
    """Read a file of any format; None where it has none of them.

    Raises:
        RanksMissing: for output of OSU where `ranks` is None and needed.
    """
    readings = (reader(file, text) for reader in READERS)
    found = next((reading for reading in readings if reading is not None), None)
    return found or osu.read(file, text, ranks)


def recorded(place: Path) -> Reading:
    """Read our records at or below a place, of suites whose cases other systems time, too."""
    found = harvest([place])
    result = Reading(passed_over=[*found.remarks()])
    for row in found.rows:
        convert = RECORDED.get(row["suite"])
        if convert is None:
            continue
        try:
            timing = convert(row)
        except (LookupError, TypeError, ValueError) as error:
            why = f"not a record of {row['suite']} ({type(error).__name__}: {error})"
            result.passed_over.append(f"{row['path']}: {why}")
            continue
        result.rows += [timing] if timing else []
    if not result.rows and not result.passed_over:
        result.passed_over.append(f"{place}: no record of suite {', '.join(RECORDED)}")
    return result
