"""Lists the formats of other systems: what reads their files, and what writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.records.foreign import Reading, Timing
from analysis.records.harvest import harvest
from analysis.suites.collective import cs336_csv, imported, nccl_tests, osu
from analysis.suites.matmul_lut import hetero_csv as hetero_lut
from analysis.suites.ring_attention import hetero_csv as hetero_sweep
from analysis.suites.ring_attention import hetero_model_csv
from analysis.suites.tensor_parallel import ddlb_csv
from analysis.suites.tensor_parallel.table import SUITES
from analysis.suites.transformer import cs336_json

KNOWN = "nccl-tests, OSU, CS336 (all-reduce CSV, transformer JSON), DDLB, hpml_testing"
READERS: tuple[Callable[[str, str], Reading | None], ...] = (
    nccl_tests.read, cs336_csv.read, cs336_json.read, ddlb_csv.read, hetero_sweep.read,
    hetero_lut.read, hetero_model_csv.read,
)  # fmt: skip
"""One per format; each returns None for a file of another format."""
RECORDED: dict[str, Callable[[Mapping[str, Any]], Timing | None]] = {
    imported.Row.SUITE: imported.row_of,
    cs336_json.Step.SUITE: cs336_json.recorded,
    hetero_sweep.Ring.SUITE: hetero_sweep.recorded,
    hetero_lut.Matmul.SUITE: hetero_lut.recorded,
    hetero_model_csv.Decoder.SUITE: hetero_model_csv.recorded,
    **dict.fromkeys(SUITES, ddlb_csv.recorded),
}
"""What converts a row of our records, by suite."""
WRITERS: dict[str, tuple[Callable[[pd.DataFrame], dict[str, str]], ...]] = {
    "ddlb": (ddlb_csv.write,),
    "cs336": (cs336_csv.export, cs336_json.export),
    "hetero": (hetero_sweep.export, hetero_lut.export, hetero_model_csv.export),
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
