"""Holds what benchkit shows of planted points against what was planted: the table, the sides, the first screen."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import pandas as pd
from analysis import screen
from analysis.screen import Screen
from analysis.variants import Side, Sides, all_sides

from tests.support.planted.oracle import Figures, labels_key, over_runs
from tests.support.planted.runs import PlantedPoint, Sweep

ROUNDING = 2e-6
"""Share by which figures may differ: samples are stored to the nanosecond, and so rounded once more."""
OF_CLOCK_S = 3e-9
OF_SHARES = 1e-5
"""Of figures that are differences of times."""
OF_RATIOS = 1e-4
PRINTED = 0.011
"""Share by which a number on a screen may differ: two of its digits count."""
TIMES = re.compile(r"([\d.,]+) × as fast as")


@dataclass(frozen=True)
class Difference:
    where: str
    what: str
    planted: object
    shown: object

    def __str__(self) -> str:
        return f"{self.where}: {self.what} {written(self.shown)}, planted {written(self.planted)}"


def written(value: object) -> str:
    return "none" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


@dataclass
class Comparison:
    """How many figures were held against the truth, and those that differ from it."""

    num_figures: int = 0
    differences: list[Difference] = field(default_factory=list)

    def hold(self, where: str, what: str, planted: Any, shown: Any, tolerance: float) -> None:
        """Note a figure; either may be None."""
        self.num_figures += 1
        if planted is None or shown is None:
            differs = planted is not shown
        else:
            differs = abs(shown - planted) > tolerance
        if differs:
            self.differences.append(Difference(where, what, planted, shown))


def compare(sweep: Sweep) -> Comparison:
    """Hold all that is shown of a sweep against the truth."""
    found = Comparison()
    compare_table(sweep, sweep.combined, found)
    compare_sides(sweep, found)
    for point in sweep.points:
        compare_speeds(point, found)
        compare_phases(point, found)
    return found


def compare_table(sweep: Sweep, table: pd.DataFrame, found: Comparison) -> None:
    """Hold every figure of every case that the oracle knows against the table."""
    by_path = dict(list(table.groupby("path", sort=False)))
    for point in sweep.points:
        rows = by_path[str(point.folder / "record.json")].to_dict("records")
        for row, planted, case in zip(rows, point.truth.figures, point.record.cases, strict=True):
            where = name_of(point, case.labels)
            for column, value in (planted or {}).items():
                shown = row.get(column)
                found.hold(where, column, value, None if pd.isna(shown) else float(shown), tolerance_of(column, value))
            if planted and point.histories[0].plant.noise == "constant":
                compare_ends(where, row, planted, found)


ENDS = {
    "median_s": ("ci_low_s", "ci_high_s", "range_low_s", "range_high_s"),
    **{
        name: tuple(f"{name}_{end}" for end in ("low", "high", "range_low", "range_high"))
        for name in ("paired_speedup", "overlap")
    },
    "warm_s": ("warm_range_low_s", "warm_range_high_s"),
}
"""By column: the ends of its interval, or of its range."""


def compare_ends(where: str, row: dict[str, Any], planted: Figures, found: Comparison) -> None:
    """Where all samples are alike, each end that is shown is the figure itself."""
    for column, ends in ENDS.items():
        for end in ends:
            if planted.get(column) is not None and not pd.isna(row.get(end)):
                found.hold(where, end, planted[column], row[end], OF_SHARES * max(1.0, abs(planted[column])))


def name_of(point: PlantedPoint, labels: Any) -> str:
    return " ".join([point.record.suite, *(f"{name}={value}" for name, value in labels.items())])


def tolerance_of(column: str, value: Any) -> float:
    if column == "overlap":
        return OF_SHARES
    is_time = column.endswith("_s") and "per_s" not in column
    return ROUNDING * abs(value or 0.0) + OF_CLOCK_S * is_time


def compare_speeds(point: PlantedPoint, found: Comparison) -> None:
    """Each sample that counts is taken at the slowdown of its rank, or at full speed where its case asks for that."""
    for history in point.histories:
        for case in history.cases:
            for rank, ranks in enumerate(zip(*history.iterations(case), strict=True)):
                planted = 1.0 if case.unslowed else history.slowdown[rank]
                factors = {window.factor for window in ranks}
                shown = factors.pop() if len(factors) == 1 else None
                found.hold(name_of(point, case.labels), f"slowdown of rank {rank}", planted, shown, 0.0)


def compare_phases(point: PlantedPoint, found: Comparison) -> None:
    """The phases of a point add up to its total."""
    phases = dict(point.record.phases_s)
    total_s = phases.pop("total")
    phases.pop("wait_for_host", None)
    found.hold(point.record.suite, "phases_s", total_s, sum(phases.values()), 1e-4)


# Sides


@dataclass
class PlantedSide:
    """What was planted of the cases that become one side: the figures of each, by its run and its job."""

    figures: dict[tuple[int, Path], Figures] = field(default_factory=dict)
    useful_flops: float = 1.0

    def median(self, column: str) -> float:
        return over_runs((figures[column], run) for (run, _), figures in self.figures.items())

    def in_run(self, column: str, number: int) -> dict[Path, float]:
        return {job: figures[column] for (run, job), figures in self.figures.items() if run == number}

    def ratio_to(self, base: "PlantedSide", column: str) -> float:
        """How many times as fast as a base, by useful work: the median over the runs that both have.

        In a run those jobs count that have both, if there are any.
        """
        ratios = []
        for run in sorted({run for run, _ in self.figures} & {run for run, _ in base.figures}):
            own, other = self.in_run(column, run), base.in_run(column, run)
            in_jobs = [other[job] / own[job] for job in own.keys() & other.keys()]
            ratios.append(median(in_jobs) if in_jobs else median(other.values()) / median(own.values()))
        return median(ratios) * self.useful_flops / base.useful_flops


def planted_sides(sweep: Sweep) -> dict[tuple[str, str], PlantedSide]:
    """By kind of point and labels: what was planted."""
    found: dict[tuple[str, str], PlantedSide] = {}
    for point in sweep.points:
        for figures, case in zip(point.truth.figures, point.record.cases, strict=True):
            if figures:
                side = found.setdefault((point.kind, labels_key(case.labels)), PlantedSide())
                side.figures[point.record.repetition, point.folder] = figures
                side.useful_flops = case.useful_flops or 1.0
    return found


def compare_sides(sweep: Sweep, found: Comparison) -> None:
    """Hold the times and ratios of sides against the truth, and what the first screen says of ratios."""
    planted, ratios = planted_sides(sweep), []
    by_group: dict[tuple[str, ...], list[float]] = {}
    of_suites = list(all_sides(sweep.combined))
    for _, sides in of_suites:
        for side in sides.sides:
            own = planted[key_of(side, sweep)]
            if any(figures.get(sides.time) is None for figures in own.figures.values()):
                continue  # too few first calls
            time = own.median(sides.time)
            found.hold(f"side {side.name}", sides.time, time, side.row[sides.time], 1e-5 * time)
            if side.ratio:
                ratio = own.ratio_to(base_of(side, sweep, planted), sides.time)
                ratios.append(ratio)
                for group in groups_of(side, sides):
                    by_group.setdefault(group, []).append(ratio)
                compare_ratio(side, ratio, found)
    if ratios:
        known = [*ratios, median(ratios), *map(median, by_group.values())]
        compare_screen(screen_with(of_suites, sweep), known, found)


def base_of(side: Side, sweep: Sweep, planted: dict[tuple[str, str], PlantedSide]) -> PlantedSide:
    """What a ratio is to: the base in the same job where there is one, for both shared its conditions."""
    assert side.ratio
    kind, own = key_of(side, sweep)
    kind_of_base, labels = key_of(side.ratio.base, sweep)
    in_same_job = planted.get((kind, labels)) if labels != own else None
    return in_same_job or planted[kind_of_base, labels]


def screen_with(of_suites: list[tuple[str, Sides]], sweep: Sweep) -> Screen:
    """The first screen, given the sides that are known already and take most of its time."""

    def again(table: pd.DataFrame, baseline: object = None) -> Iterator[tuple[str, Sides]]:
        return (each for each in of_suites if each[0] in set(table["suite"]))

    with patch.object(screen, "all_sides", again):
        return screen.screen_of(sweep.combined)


def groups_of(side: Side, sides: Sides) -> Iterator[tuple[str, ...]]:
    """Yield of which settings an answer may give the median: of a name, with any one setting of the work."""
    yield (side.name,)
    for name in sides.work:
        yield name, str(side.row[name]), side.name


def compare_ratio(side: Side, planted: float, found: Comparison) -> None:
    assert side.ratio
    found.hold(f"side {side.name}", "ratio", planted, side.ratio.value, OF_RATIOS * planted)
    if side.ratio.ends:
        low, high = side.ratio.ends
        nearest = min(max(side.ratio.value, low), high)
        found.hold(f"side {side.name}", "ratio within its ends", side.ratio.value, nearest, 1e-9)


def compare_screen(shown_first: Screen, ratios: list[float], found: Comparison) -> None:
    """Each "× as fast as" of an answer is one of the planted ratios, or the median of several."""
    for text in TIMES.findall("\n".join(shown_first.answers)):
        shown = float(text.replace(",", ""))
        half_a_digit = 0.5 * 10 ** -len(text.partition(".")[2])
        nearest = min(ratios, key=lambda ratio: abs(ratio - shown))
        found.hold("first screen", "× as fast as", nearest, shown, half_a_digit + PRINTED * nearest)


def key_of(side: Side, sweep: Sweep) -> tuple[str, str]:
    """The kind of point and the labels that a side has, by its cells."""
    point = sweep.point_at(side.row["path"])
    labels = [case.labels for case in point.record.cases]
    names = set().union(*labels)
    cells = {name: cell_of(side, point.record.suite, name) for name in names}
    [own] = [each for each in labels if all(is_cell(cells[name], each.get(name)) for name in names)]
    return point.kind, labels_key(own)


def cell_of(side: Side, suite: str, name: str) -> Any:
    row: dict[str, Any] = dict(side.row)
    return row.get(f"{suite}.{name}", row.get(name))


def is_cell(cell: Any, label: object) -> bool:
    if label is None or pd.isna(cell):
        return label is None and pd.isna(cell)
    try:
        return float(cell) == float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(cell) == str(label)
