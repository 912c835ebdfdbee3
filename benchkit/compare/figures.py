"""What the records of a run say: the times of every point, or why there are none."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchkit.record import files
from benchkit.record.environment import VERSIONS
from benchkit.record.naming import depends_on_time
from benchkit.record.record import Record
from benchkit.record.statuses import HARMLESS
from benchkit.statistics.compare.spread import difference_of_runs
from benchkit.statistics.intervals import Array
from benchkit.statistics.summary import iteration_times
from benchkit.sweep import manifest

NO_CASE = "no such case"
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, order=True)
class Point:
    """What is compared: a case of a point of the sweep, by its number and the case's labels."""

    number: int
    labels: Labels

    def is_part_of(self, other: "Point") -> bool:
        """Returns whether another case has these labels, and perhaps more."""
        return self.number == other.number and {*self.labels} <= {*other.labels}


@dataclass(frozen=True)
class Lack:
    """Why a point has no times in a run.

    Attributes:
        reason: of the case, or of the point of the sweep.
        is_harmless: whether nothing failed, as where a backend is not here.
        is_left_out: whether the suite left out the case for the time that it takes.
    """

    reason: str
    is_harmless: bool
    is_left_out: bool = False


@dataclass
class RunFigures:
    """One run.

    Attributes:
        times: seconds per call of each iteration, by point.
        reasons: why a point, or a whole point of the sweep by its number, has no times.
        harmless: those of the reasons that are no failure, such as a backend that is not here.
        overrides: of each point of the sweep.
        title: of the first point.
        software: versions by name.
        identical_runs: of points of the sweep by number, what two identical runs differ by, as a
            share: the noise floor of a selftest.
    """

    times: dict[Point, Array] = field(default_factory=dict)
    reasons: dict[Point | int, str] = field(default_factory=dict)
    harmless: set[Point | int] = field(default_factory=set)
    overrides: list[list[str]] = field(default_factory=list)
    title: str = ""
    software: dict[str, str] = field(default_factory=dict)
    identical_runs: dict[int, float] = field(default_factory=dict)

    def lack(self, point: Point) -> Lack | None:
        """Returns why a point has no times; None where it has.

        A job that fails as a whole, or does not fit, may have less labels than its cases.
        """
        if point in self.times:
            return None
        parts = [key for key in self.reasons if isinstance(key, Point) and key.is_part_of(point)]
        for key in (point, *parts, point.number):
            if key in self.reasons:
                return Lack(self.reasons[key], key in self.harmless)
        return Lack(NO_CASE, True, depends_on_time(dict(point.labels)))


def read_run(folder: Path) -> RunFigures:
    """Reads the records of a run.

    Raises:
        ConfigError: there is no sweep.
    """
    found = RunFigures()
    for number, entry in enumerate(manifest.read(folder).points):
        try:
            record = files.read(folder / entry.folder / files.FILE_NAME)
        except ValueError as error:
            found.reasons[number] = str(error)
            found.overrides.append(entry.overrides)
            continue
        add(found, number, record)
    return found


def add(found: RunFigures, number: int, record: Record) -> None:
    """Adds a point of the sweep to the figures of a run."""
    found.overrides.append(record.overrides)
    if not found.title:
        found.title = record.title
        versions = {name: getattr(record.environment, name) for name in VERSIONS}
        found.software = {name: str(value) for name, value in versions.items() if value}
    if record.noise_floor:
        found.identical_runs[number] = difference_of_runs(record.noise_floor.sigma_run)
    if record.status != "ok" and not any(case.status == record.status for case in record.cases):
        message = record.error.message.splitlines()[0] if record.error else ""
        found.reasons[number] = f"{record.status}: {message}"
        found.harmless |= {number} if record.status in HARMLESS else set()
    for case in record.cases:
        labels = tuple((name, str(value)) for name, value in case.labels.items())
        point = Point(number, labels)
        status = record.status_of(case)
        if status != case.status:
            continue  # the whole point failed
        if status != "ok" or not case.samples_s:
            found.reasons[point] = f"{status}: {case.reason}"
            found.harmless |= {point} if status in HARMLESS else set()
            continue
        rows, starts = case.samples_taking_part, case.starts_taking_part
        found.times[point] = iteration_times(rows, starts, case.estimator)


def statistic_of(name: str, times: Array | None) -> float:
    """Returns a figure of a run from its times, in seconds; NaN without times.

    Args:
        name: mean, median, or a percentile such as p25.
        times: [iteration]; None for a run without.
    """
    if times is None:
        return float("nan")
    if name == "mean":
        return float(times.mean())
    return float(np.percentile(times, 50 if name == "median" else float(name[1:])))


def names_of(points: Iterable[Point], run: RunFigures) -> dict[Point, str]:
    """Returns what sets each point apart from the others: overrides that vary, and labels."""
    typed = [
        [text for text in overrides if not text.startswith(("hydra.", "seed="))]
        for overrides in run.overrides
    ]
    shared = set.intersection(*map(set, typed)) if typed else set[str]()
    names = {}
    for point in points:
        own = typed[point.number] if point.number < len(typed) else [str(point.number)]
        words = [text for text in own if text not in shared]
        words += [f"{name}={value}" for name, value in point.labels]
        names[point] = " ".join(words) or run.title
    return names
