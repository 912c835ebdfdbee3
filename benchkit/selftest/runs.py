"""Runs real points in fresh processes, by ordinary sweeps: how much do identical runs differ?"""

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchkit.record import files
from benchkit.record.case import CaseRecord
from benchkit.record.record import Record
from benchkit.selftest.floor import SizeFloor
from benchkit.statistics.compare.spread import standard_deviation
from benchkit.statistics.modes import find_modes
from benchkit.statistics.summary import iteration_times
from launch.module_path import path_options

MATRIX = 512
"""Rows of the matrices, for suites with such sizes."""
ALL_REDUCE = ("+suite=allreduce", "data_size=1KiB,1MiB")
MATRIX_PRODUCT = ("+suite=matmul_lut", f"sizes=[{MATRIX}]", "hardware.slowdown=1")


class SelftestFailed(Exception):
    """A part of the selftest could not be measured; the message is one line."""


@dataclass(frozen=True)
class Setting:
    """What the selftest is of, and how long it takes.

    Attributes:
        backend: by which the ranks communicate.
        ranks: number of ranks.
        seconds: for all parts together, on an idle machine.
        folder: where the records of the sweeps go.
    """

    backend: str
    ranks: int
    seconds: float
    folder: Path

    @property
    def num_runs(self) -> int:
        """Fresh runs of each size: an even number, because they are compared in pairs."""
        return 2 * max(1, int(self.seconds / 10))

    def overrides(self) -> list[str]:
        """Returns the settings of every point."""
        device = "cuda" if self.backend == "nccl" else "cpu"
        return [
            f"hardware={device}",
            f"backend={self.backend}",
            f"world_size={self.ranks}",
            "measure=quick",
            "measure.max_iterations=2000",
            f"measure.max_seconds={self.seconds / 400:.6f}",
            "measure.block_seconds=0.02",
        ]


@dataclass(frozen=True)
class Runs:
    """Identical runs of one size, in order of time.

    Attributes:
        what: names the size.
        medians_s: median time of a call of each run; NaN where a run lacks it.
        slow_shares: of each run with two modes, the share of the slower one.
    """

    what: str
    medians_s: list[float] = field(default_factory=list)
    slow_shares: list[float] = field(default_factory=list)

    def floor(self) -> SizeFloor:
        """Returns how much the runs differ."""
        medians = np.array(self.medians_s)
        return SizeFloor(
            what=self.what,
            median_s=self.median_s,
            sigma_run=standard_deviation(np.log(medians)) or 0.0,
            num_runs=int(np.isfinite(medians).sum()),
        )

    @property
    def median_s(self) -> float:
        """Median over the runs."""
        return float(np.nanmedian(self.medians_s))


def repeat(setting: Setting) -> list[Record]:
    """Measures three sizes in fresh processes, all sizes of a sweep before its next round."""
    seeds = f"seed=range(0,{setting.num_runs})"
    return [
        *sweep(setting, "all_reduce", (ALL_REDUCE[0], seeds, *ALL_REDUCE[1:])),
        *sweep(setting, "matrix_product", (MATRIX_PRODUCT[0], seeds, *MATRIX_PRODUCT[1:])),
    ]


def sweep(
    setting: Setting, name: str, points: Sequence[str], variables: dict[str, str] | None = None
) -> list[Record]:
    """Runs a sweep as a user does, in a process of its own; returns the records of its points.

    Raises:
        SelftestFailed: a point was not measured.
    """
    folder = setting.folder / name
    benchkit = [sys.executable, *path_options(), "-m", "benchkit"]
    with (setting.folder / f"{name}.log").open("w+", errors="replace") as log:
        process = subprocess.Popen(
            [*benchkit, "-m", *points, *setting.overrides(), f"hydra.sweep.dir={folder}"],
            env={**os.environ, **(variables or {})},
            stdout=log,
            stderr=log,
        )
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        log.seek(0)
        lines = [line for line in log.read().splitlines() if line.strip()]
    paths = sorted(folder.glob(f"*/{files.FILE_NAME}"), key=lambda path: int(path.parent.name))
    records = [files.read(path) for path in paths]
    for record in records:
        if record.status != "ok":
            reason = record.error.message.splitlines()[0] if record.error else ""
            raise SelftestFailed(f"{record.title}: {record.status}: {reason}")
    if code or not records:
        raise SelftestFailed(lines[-1] if lines else f"exit code {code}")
    return records


def group_runs(records: Sequence[Record]) -> list[Runs]:
    """Returns the runs of each size, by the order in which sizes were measured first.

    A run is told by its seed. A case that a run lacks, as a call that is not short in every run has
    no latency in each, is NaN there, so that neighbours stay pairs.
    """
    num_runs = 1 + max(record.settings.seed for record in records)
    found: dict[str, Runs] = {}
    for record in records:
        for case in record.cases:
            what = name_of(record, case)
            runs = found.setdefault(what, Runs(what, [math.nan] * num_runs))
            times = iteration_times(
                case.samples_taking_part, case.starts_taking_part, case.estimator
            )
            runs.medians_s[record.settings.seed] = float(np.median(times))
            if modes := find_modes(times):
                runs.slow_shares.append(modes.slow_share)
    return list(found.values())


def name_of(record: Record, case: CaseRecord) -> str:
    """Returns the name of a size: "all_reduce 1KiB latency" or "matmul_lut 512"."""
    sizes = [text.split("=", 1)[1] for text in record.overrides if text.startswith("data_size=")]
    return " ".join([record.title, *sizes, *map(str, case.labels.values())])
