"""The combined table: one row per case of every record, in columns of a fixed order."""

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from itertools import chain
from operator import itemgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd
from pandas.api.types import is_numeric_dtype

from analysis.records import columns
from analysis.records.columns import FIGURES, INTEGER, METRICS, NUMBER, SPREADS, names_of
from analysis.records.doubts import UTILISATIONS, shares_above_one
from analysis.records.results import DETAILS, CaseRow, Row
from analysis.records.rows import DIMENSIONS, MODEL
from analysis.shared.text import (
    INTERVAL,
    has_interval_or_range,
    interval_head,
    intervals,
    setting_words,
    shorten_reason,
)
from benchkit.api.case import MEASURED_PEAK, PEAK_FROM, PEAK_TFLOP_PER_S
from benchkit.record.naming import format_label, oversubscription

SETTINGS, CONDITIONS = names_of(columns.SETTINGS), names_of(columns.CONDITIONS)
PROVENANCE = names_of(columns.PROVENANCE)
HARDWARE_AND_SOFTWARE = tuple(each.name for each in columns.CONDITIONS if each.is_software)
ROUNDS = "rounds"
"""The last column: `CaseFigures.rounds`, by which any two cases of a job compare; no output."""
Shape = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of a row's cells and of its details, in order."""


def combine(rows: Sequence[CaseRow], split_hosts: bool = False) -> pd.DataFrame:
    """Make one table of all rows.

    Args:
        split_hosts: whether hosts of one kind in a sweep are told apart, see `with_machines`.

    Returns:
        A table whose columns are, in this order: settings, the suites' own keys and labels,
        conditions, metrics, the details that suites report, provenance, ROUNDS.
    """
    shapes: dict[Shape, int] = {}  # few, and where a cell is has to be found only once for each
    shape_numbers = [
        shapes.setdefault((row.names, tuple(row.case.details)), len(shapes)) for row in rows
    ]
    metrics = names_of(METRICS)
    taken = {*SETTINGS, *CONDITIONS, *metrics, *PROVENANCE, DETAILS}
    reported = [name for name in names_in(details for _, details in shapes) if name not in taken]
    known = {*taken, *reported}
    own = [name for name in names_in(names for names, _ in shapes) if name not in known]
    in_order = [*SETTINGS, *own, *CONDITIONS, *metrics, *reported, *PROVENANCE]
    pickers = [make_cell_getter(shape, in_order) for shape in shapes]
    cells = [pickers[number](row) for number, row in zip(shape_numbers, rows, strict=True)]
    table = pd.DataFrame(cells, columns=in_order)
    # A column without any figure is one of objects.
    others = [
        column.name
        for column in (*METRICS, *columns.PROVENANCE)
        if column.dtype in (NUMBER, INTEGER) and not is_numeric_dtype(table[column.name])
    ]
    table[others] = table[others].apply(pd.to_numeric)
    rounds = [row.case.rounds for row in rows]
    table = table.assign(model=full_names(table), node=table["host"], **{ROUNDS: rounds})
    return with_best_peaks(table if split_hosts else merge_equal_hosts(table))


ALIKE = " alike"
OF_MACHINE = ("device_name", "torch", "cuda", "nccl", "driver", "kernel")


def merge_equal_hosts(table: pd.DataFrame) -> pd.DataFrame:
    """Name hosts of one kind in a sweep as one machine: "n1 and 3 alike"; `node` keeps their names.

    A job array measures each point on the node that is free. Nodes with the same processor or GPU,
    as many cores and the same software are no setting.
    """
    if table["host"].nunique() < 2:
        return table
    sweep = table["run"].astype("string").str.replace(r"#\d+$", "", regex=True)
    cores = (table["cores_per_rank"] * table["world_size"]).rename("cores")
    kind = [
        sweep,
        cores,
        table["host"].str.count(r"\+").rename("more"),
        *map(table.get, OF_MACHINE),
    ]
    hosts = table["host"].groupby(kind, dropna=False, sort=False)
    others = hosts.transform("nunique") - 1
    name = hosts.transform("first") + " and " + others.astype(str) + ALIKE
    is_one = (others > 0) & table["run"].notna()
    return table.assign(host=table["host"].mask(is_one, name))


SPREAD_OF_PEAKS = 1.2
"""Ratio of two measured peaks of one host from which on rows say so."""


def with_best_peaks(table: pd.DataFrame) -> pd.DataFrame:
    """Relate all rates of a host to the best product that any of its jobs measured.

    A job's own product may have met a busy machine; then equal rates would be unlike shares.
    """
    if PEAK_FROM not in table or not (is_own := table[PEAK_FROM].eq(MEASURED_PEAK)).any():
        return table
    alike = [
        name for name in ("host", "device_name", "dtype", "world_size", "ranks") if name in table
    ]
    peaks = pd.to_numeric(table[PEAK_TFLOP_PER_S]).where(is_own)
    best = peaks.groupby([table[name] for name in alike], dropna=False).transform("max")
    share = (peaks / best).fillna(1.0)
    rates = {name: table[name] * share for name in UTILISATIONS}
    doubts = table["doubt"].astype(object).where(table["doubt"].notna(), None)
    for index in table.index[(share < 1) & doubts.notna()]:
        above = shares_above_one({name: rates[name][index] for name in rates}, UTILISATIONS)
        lines = [f"{above}: the best peak is of a busy machine, too"] if above else []
        others = str(doubts[index]).split("; ")
        lines += [line for line in others if not line.startswith(UTILISATIONS)]
        doubts[index] = "; ".join(lines) or None
    for index in table.index[share < 1 / SPREAD_OF_PEAKS]:
        line = (
            f"best product {peaks[index]:.3g} TFLOP/s beside it, {best[index]:.3g} in another job"
        )
        doubts[index] = "; ".join(filter(None, (line, doubts[index])))
    peak = table[PEAK_TFLOP_PER_S].mask(is_own, best)
    return table.assign(**rates, **{PEAK_TFLOP_PER_S: peak, "doubt": doubts})


def names_in(shapes: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(shapes)))


def make_cell_getter(shape: Shape, columns: Sequence[str]) -> Callable[[CaseRow], tuple[Any, ...]]:
    """Make a function that returns the cells of rows of a shape in the order of columns.

    A column that the row lacks is NaN. A cell precedes a detail of the same name.
    """
    names, details = shape
    places = {name: place for place, name in enumerate((*details, *names))}
    pick = itemgetter(*(places.get(name, -1) for name in columns))
    return lambda row: pick((*row.case.details.values(), *row.cells, math.nan))


def full_names(table: pd.DataFrame) -> pd.Series:
    """Return the models' names, with the differing sizes of models that share one name.

    For example "small vocab_size=32000".
    """
    names = table["model"].copy()
    for _, rows in table.groupby("model"):
        for dimension in DIMENSIONS:
            sizes = rows[dimension]
            if sizes.nunique() > 1:
                key = dimension.removeprefix(MODEL)
                names.loc[rows.index] += sizes.map(lambda size, key=key: f" {key}={size:g}")
    return names


def oversubscribed_rows(table: pd.DataFrame) -> pd.Series:
    """Return of each row whether it was measured by ranks that had more threads than cores."""
    has_fewer_cores = table["cores_per_rank"] < table["threads_per_rank"]
    return has_fewer_cores & table["median_s"].notna()


def oversubscribed_ranks(table: pd.DataFrame) -> str:
    """Say which rows `crowded` marks: "oversubscribed: 4 ranks on 2 cores"; "" where none is."""
    names = ["world_size", "cores_per_rank", "threads_per_rank"]
    rows = table.loc[oversubscribed_rows(table), names].to_dict("records")
    jobs = (on_cores(int(row["world_size"]), row) for row in rows)
    return oversubscription(jobs) if rows else ""


def on_cores(ranks: int, row: Row) -> tuple[int, str, int]:
    """Return the ranks, with the cores of their job in words, and the threads of each."""
    cores = f"{row['cores_per_rank'] * row['world_size']:.3g}"
    return ranks, f"{cores} core{'s' * (cores != '1')}", int(row["threads_per_rank"])


def reasons(table: pd.DataFrame) -> pd.Series:
    """Return why each row was not measured."""
    return table["reason"].fillna("no reason given")


def suite_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns that are the suites' own keys and labels."""
    names = list(table.columns)
    return names[len(SETTINGS) : names.index(CONDITIONS[0])]


def identity_columns(table: pd.DataFrame) -> list[str]:
    """Return the columns that say what was measured, apart from how it went."""
    return [name for name in [*SETTINGS, *suite_columns(table), *CONDITIONS] if name != "status"]


def is_repeated(table: pd.DataFrame) -> bool:
    """Return whether several runs measured the same, so that only the run tells rows apart."""
    return table["run"].nunique() > 1 and bool(table.duplicated(identity_columns(table)).any())


def format_printed(table: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Select the columns that matter to a reader, under their heads in print.

    Args:
        most: the first rows that are returned; by default all.
    """
    return select_printed(table, most).rename(columns=heads_of(table))


def heads_of(table: pd.DataFrame) -> dict[str, str]:
    """Return the heads of the columns of `printed` that are not their names."""
    heads = {name: column.head for name, column in FIGURES.items()}
    return heads | {INTERVAL: f"{interval_head(table)} [ms]"}


def select_printed(table: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Select the columns that matter to a reader, scaled to the units in their heads.

    Columns without any value are left out. Settings that a suite lacks share one column, and what
    stands beside the median is in INTERVAL.

    Args:
        most: the first rows that are returned; by default all.
    """
    differing = [name for name in CONDITIONS if table[name].nunique(dropna=False) > 1]
    lacking = partial_columns(table)
    own = [name for name in suite_columns(table) if name not in lacking]
    if lacking:
        words = setting_words(
            table, lacking, lambda name, value: f"{name} {format_label(name, value)}"
        )
        table = table.assign(settings=[", ".join(each) or None for each in words])
        own.append("settings")
    rows, shown = table.iloc[:most], {}
    for name in [*SETTINGS, *own, *differing, *printed_columns()]:
        if name == INTERVAL:
            if any(has_interval_or_range(table)):
                shown[name] = intervals(rows)
        elif name in table and table[name].notna().any():
            shown[name] = rows[name]
            if name in FIGURES:
                shown[name] = pd.to_numeric(rows[name]) * FIGURES[name].scale
            elif name == "data_size":
                shown[name] = rows[name].map(partial(format_label, name), na_action="ignore")
    if is_repeated(table):
        shown["run"] = rows["run"]
    if oversubscribed_rows(table).any():
        shown["cores_per_rank"] = rows["cores_per_rank"]
    for name in ("warning", "doubt", "unchecked"):
        if table[name].notna().any():
            shown[name] = rows[name].map(shorten_reason, na_action="ignore")
    if (table["status"] != "ok").any():
        of_failed = rows["reason"].where(rows["status"] != "ok")
        shown["reason"] = of_failed.map(shorten_reason, na_action="ignore")
    return pd.DataFrame(shown)


def printed_columns() -> Iterator[str]:
    for metric in METRICS:
        if metric.is_printed:
            yield metric.name
        if metric.name == "median_s":
            yield from (INTERVAL, *names_of(SPREADS))


def partial_columns(table: pd.DataFrame) -> list[str]:
    """Return the suites' own columns that at least one suite of the table does not have."""
    known = table[suite_columns(table)].notna().groupby(table["suite"]).any()
    return [str(name) for name in known.columns[~known.all()]]


Of = ParamSpec("Of")
Made = TypeVar("Made")


def cache_latest(
    make: Callable[Concatenate[pd.DataFrame, Of], Made],
) -> Callable[Concatenate[pd.DataFrame, Of], Made]:
    """Keep what a function made of a table last, as long as that table is there.

    The texts of a suite and its figures rest on the same; none of them changes it.
    """
    kept: dict[Any, tuple[weakref.ref[pd.DataFrame], Made]] = {}

    @wraps(make)
    def kept_or_made(table: pd.DataFrame, /, *more: Of.args, **named: Of.kwargs) -> Made:
        key = repr((more, named))
        if key not in kept or kept[key][0]() is not table:
            kept[key] = weakref.ref(table), make(table, *more, **named)
        return kept[key][1]

    return kept_or_made
