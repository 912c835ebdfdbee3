"""Holds what benchkit shows of planted points against what was planted: the table, the variants, the first screen."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
from analysis.screen.screen import Screen, screen_of
from analysis.table.speedup import Variant
from analysis.table.variants import SuiteResults, compare_suites

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
    compare_variants(sweep, found)
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


# Variants


@dataclass
class PlantedVariant:
    """What was planted of the cases that become one variant: the figures of each, by its run and its job."""

    figures: dict[tuple[int, Path], Figures] = field(default_factory=dict)
    useful_flops: float = 1.0

    def median(self, column: str) -> float:
        return over_runs((figures[column], run) for (run, _), figures in self.figures.items())

    def in_run(self, column: str, number: int) -> dict[Path, float]:
        return {job: figures[column] for (run, job), figures in self.figures.items() if run == number}

    def ratio_to(self, base: "PlantedVariant", column: str) -> float:
        """How many times as fast as a base, by useful work: the quotient of the medians over the runs that both have.

        In a run those jobs count that have both, if there are any.
        """
        own_s, base_s = [], []
        for run in sorted({run for run, _ in self.figures} & {run for run, _ in base.figures}):
            own, other = self.in_run(column, run), base.in_run(column, run)
            shared = own.keys() & other.keys()
            for times, of_run in ((own_s, own), (base_s, other)):
                times.append(median(value for job, value in of_run.items() if not shared or job in shared))
        return median(base_s) / median(own_s) * self.useful_flops / base.useful_flops


def planted_variants(sweep: Sweep) -> dict[tuple[str, str], PlantedVariant]:
    """By kind of case: what was planted."""
    found: dict[tuple[str, str], PlantedVariant] = {}
    for point in sweep.points:
        for figures, case in zip(point.truth.figures, point.record.cases, strict=True):
            if figures:
                variant = found.setdefault(kind_of(point, case.labels), PlantedVariant())
                variant.figures[point.record.repetition, point.folder] = figures
                variant.useful_flops = case.useful_flops or 1.0
    return found


def compare_variants(sweep: Sweep, found: Comparison) -> None:
    """Hold the times and speedups of variants against the truth, and what the first screen says of ratios."""
    planted, ratios = planted_variants(sweep), []
    by_group: dict[tuple[str, ...], list[float]] = {}
    for variants in compare_suites(sweep.combined).values():
        for variant in variants.variants:
            own = planted[key_of(variant, sweep)]
            if any(figures.get(variants.time_column) is None for figures in own.figures.values()):
                continue  # too few first calls
            time = own.median(variants.time_column)
            found.hold(
                f"variant {variant.name}", variants.time_column, time, variant.row[variants.time_column], 1e-5 * time
            )
            if variant.speedup:
                ratio = own.ratio_to(base_of(variant, sweep, planted), variants.time_column)
                ratios.append(ratio)
                for group in groups_of(variant, variants):
                    by_group.setdefault(group, []).append(ratio)
                compare_ratio(variant, ratio, found)
    if ratios:
        known = [*ratios, median(ratios), *map(median, by_group.values())]
        compare_screen(screen_of(sweep.combined), known, found)


def base_of(variant: Variant, sweep: Sweep, planted: dict[tuple[str, str], PlantedVariant]) -> PlantedVariant:
    """What a ratio is to: the base in the same job where there is one, for both shared its conditions."""
    assert variant.speedup
    kind, own = key_of(variant, sweep)
    kind_of_base, labels = key_of(variant.speedup.reference, sweep)
    in_same_job = planted.get((kind, labels)) if labels != own else None
    return in_same_job or planted[kind_of_base, labels]


def groups_of(variant: Variant, variants: SuiteResults) -> Iterator[tuple[str, ...]]:
    """Yield of which settings an answer may give the median: of a name, with any one setting of the work."""
    yield (variant.name,)
    for name in variants.problem_columns:
        yield name, str(variant.row[name]), variant.name


def compare_ratio(variant: Variant, planted: float, found: Comparison) -> None:
    assert variant.speedup
    found.hold(f"variant {variant.name}", "ratio", planted, variant.speedup.value, OF_RATIOS * planted)
    if variant.speedup.interval_or_range:
        low, high = variant.speedup.interval_or_range
        nearest = min(max(variant.speedup.value, low), high)
        found.hold(f"variant {variant.name}", "ratio within its ends", variant.speedup.value, nearest, 1e-9)


def compare_screen(shown_first: Screen, ratios: list[float], found: Comparison) -> None:
    """Each "× as fast as" of an answer is one of the planted ratios, or the median of several."""
    for text in TIMES.findall("\n".join(shown_first.answers)):
        shown = float(text.replace(",", ""))
        half_a_digit = 0.5 * 10 ** -len(text.partition(".")[2])
        nearest = min(ratios, key=lambda ratio: abs(ratio - shown))
        found.hold("first screen", "× as fast as", nearest, shown, half_a_digit + PRINTED * nearest)


def key_of(variant: Variant, sweep: Sweep) -> tuple[str, str]:
    """The kind of point and the labels that a variant has, by its cells."""
    point = sweep.point_at(variant.row["path"])
    labels = [case.labels for case in point.record.cases]
    names = set().union(*labels)
    cells = {name: cell_of(variant, point.record.suite, name) for name in names}
    config = point.record.config
    [own] = [each for each in labels if all(is_cell(cells[n], each.get(n, config.get(n))) for n in names)]
    return kind_of(point, own)


def kind_of(point: PlantedPoint, labels: dict[str, Any]) -> tuple[str, str]:
    """The kind of point, but for keys in whose place a case has a label, and the labels."""
    own = " ".join(each for each in point.kind.split(" ") if each.partition("=")[0] not in labels)
    return own, labels_key(labels)


def cell_of(variant: Variant, suite: str, name: str) -> Any:
    row: dict[str, Any] = dict(variant.row)
    return row.get(f"{suite}.{name}", row.get(name))


def is_cell(cell: Any, label: object) -> bool:
    if label is None or pd.isna(cell):
        return label is None and pd.isna(cell)
    try:
        return float(cell) == float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(cell) == str(label)
