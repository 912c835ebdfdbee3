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
HARDWARE_AND_SOFTWARE = tuple(column.name for column in columns.CONDITIONS if column.is_software)
ROUNDS = "rounds"
"""The last column, `CaseResult.rounds`: any two cases of a job compare by it. It is not written."""
Shape = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of a row's cells and of its details, in order."""


def combine(rows: Sequence[CaseRow], split_hosts: bool = False) -> pd.DataFrame:
    """Make one table of all rows.

    Args:
        split_hosts: whether to distinguish hosts of one kind in a sweep, see `merge_equal_hosts`.

    Returns:
        A table whose columns are, in this order: settings, the suites' own keys and labels,
        conditions, metrics, the details that suites report, provenance, ROUNDS.
    """
    shapes: dict[Shape, int] = {}  # few, so that cells are located only once per shape
    shape_numbers = [
        shapes.setdefault((row.names, tuple(row.case.details)), len(shapes)) for row in rows
    ]
    metrics = names_of(METRICS)
    taken = {*SETTINGS, *CONDITIONS, *metrics, *PROVENANCE, DETAILS}
    reported = [name for name in names_in(details for _, details in shapes) if name not in taken]
    common = {*taken, *reported}
    suite_names = [name for name in names_in(names for names, _ in shapes) if name not in common]
    in_order = [*SETTINGS, *suite_names, *CONDITIONS, *metrics, *reported, *PROVENANCE]
    getters = [make_cell_getter(shape, in_order) for shape in shapes]
    cells = [getters[number](row) for number, row in zip(shape_numbers, rows, strict=True)]
    table = pd.DataFrame(cells, columns=in_order)
    # A column without any number has the type object.
    empty = [
        column.name
        for column in (*METRICS, *columns.PROVENANCE)
        if column.dtype in (NUMBER, INTEGER) and not is_numeric_dtype(table[column.name])
    ]
    table[empty] = table[empty].apply(pd.to_numeric)
    rounds = [row.case.rounds for row in rows]
    table = table.assign(model=full_names(table), node=table["host"], **{ROUNDS: rounds})
    return relate_to_best_peaks(table if split_hosts else merge_equal_hosts(table))


ALIKE = " alike"
OF_MACHINE = ("device_name", "torch", "cuda", "nccl", "driver", "kernel")


def merge_equal_hosts(table: pd.DataFrame) -> pd.DataFrame:
    """Name hosts of one kind in a sweep as one machine: "n1 and 3 alike"; `node` keeps their names.

    A job array measures each point on the node that is free. Nodes with the same processor or GPU,
    as many cores and the same software are replicates.
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
    num_others = hosts.transform("nunique") - 1
    name = hosts.transform("first") + " and " + num_others.astype(str) + ALIKE
    is_merged = (num_others > 0) & table["run"].notna()
    return table.assign(host=table["host"].mask(is_merged, name))


SPREAD_OF_PEAKS = 1.2
"""Ratio of two measured peaks of one host from which on rows have a doubt."""


def relate_to_best_peaks(table: pd.DataFrame) -> pd.DataFrame:
    """Relate all rates of a host to the highest peak that any of its jobs measured.

    A job may have measured its peak on a busy machine; then equal rates would be unequal shares.
    """
    if PEAK_FROM not in table or not (is_measured := table[PEAK_FROM].eq(MEASURED_PEAK)).any():
        return table
    keys = [
        name for name in ("host", "device_name", "dtype", "world_size", "ranks") if name in table
    ]
    peaks = pd.to_numeric(table[PEAK_TFLOP_PER_S]).where(is_measured)
    best = peaks.groupby([table[name] for name in keys], dropna=False).transform("max")
    share = (peaks / best).fillna(1.0)
    rates = {name: table[name] * share for name in UTILISATIONS}
    doubts = table["doubt"].astype(object).where(table["doubt"].notna(), None)
    for index in table.index[(share < 1) & doubts.notna()]:
        above = shares_above_one({name: rates[name][index] for name in rates}, UTILISATIONS)
        lines = [f"{above}: the best peak is of a busy machine, too"] if above else []
        old_lines = str(doubts[index]).split("; ")
        lines += [line for line in old_lines if not line.startswith(UTILISATIONS)]
        doubts[index] = "; ".join(lines) or None
    for index in table.index[share < 1 / SPREAD_OF_PEAKS]:
        line = (
            f"best product {peaks[index]:.3g} TFLOP/s beside it, {best[index]:.3g} in another job"
        )
        doubts[index] = "; ".join(filter(None, (line, doubts[index])))
    peak = table[PEAK_TFLOP_PER_S].mask(is_measured, best)
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
    """Return a mask of the rows that were measured with more threads than cores."""
    has_fewer_cores = table["cores_per_rank"] < table["threads_per_rank"]
    return has_fewer_cores & table["median_s"].notna()


def oversubscribed_ranks(table: pd.DataFrame) -> str:
    """Describe `oversubscribed_rows`: "oversubscribed: 4 ranks on 2 cores"; "" without any."""
    names = ["world_size", "cores_per_rank", "threads_per_rank"]
    rows = table.loc[oversubscribed_rows(table), names].to_dict("records")
    jobs = (describe_job(int(row["world_size"]), row) for row in rows)
    return oversubscription(jobs) if rows else ""


def describe_job(ranks: int, row: Row) -> tuple[int, str, int]:
    """Return the ranks, the cores of their job in words, and the threads of each rank."""
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
    """Return the columns that identify what was measured, without its outcome."""
    return [name for name in [*SETTINGS, *suite_columns(table), *CONDITIONS] if name != "status"]


def is_repeated(table: pd.DataFrame) -> bool:
    """Return whether several runs measured the same, so that only the run distinguishes rows."""
    return table["run"].nunique() > 1 and bool(table.duplicated(identity_columns(table)).any())


def format_printed(table: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Select the columns that matter to a reader, under their heads in print.

    Args:
        most: the first rows that are returned; by default all.
    """
    return select_printed(table, most).rename(columns=heads_of(table))


def heads_of(table: pd.DataFrame) -> dict[str, str]:
    """Return the heads of columns of `select_printed` that differ from their names."""
    heads = {name: column.head for name, column in FIGURES.items()}
    return heads | {INTERVAL: f"{interval_head(table)} [ms]"}


def select_printed(table: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Select the columns that matter to a reader, scaled to the units in their heads.

    Columns without any value are left out. Settings that a suite lacks share one column. INTERVAL
    has the interval or range of the median.

    Args:
        most: the first rows that are returned; by default all.
    """
    differing = [name for name in CONDITIONS if table[name].nunique(dropna=False) > 1]
    lacking = partial_columns(table)
    suite_settings = [name for name in suite_columns(table) if name not in lacking]
    if lacking:
        words = setting_words(
            table, lacking, lambda name, value: f"{name} {format_label(name, value)}"
        )
        table = table.assign(settings=[", ".join(words_of_row) or None for words_of_row in words])
        suite_settings.append("settings")
    rows, shown = table.iloc[:most], {}
    for name in [*SETTINGS, *suite_settings, *differing, *printed_columns()]:
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
    has_values = table[suite_columns(table)].notna().groupby(table["suite"]).any()
    return [str(name) for name in has_values.columns[~has_values.all()]]


Of = ParamSpec("Of")
Made = TypeVar("Made")


def cache_latest(
    make: Callable[Concatenate[pd.DataFrame, Of], Made],
) -> Callable[Concatenate[pd.DataFrame, Of], Made]:
    """Cache the results of a function for the latest table, as long as that table exists.

    The texts and the charts of a suite share these results, and none changes them.
    """
    cached: dict[Any, tuple[weakref.ref[pd.DataFrame], Made]] = {}

    @wraps(make)
    def get_or_make(table: pd.DataFrame, /, *arguments: Of.args, **named: Of.kwargs) -> Made:
        key = repr((arguments, named))
        if key not in cached or cached[key][0]() is not table:
            cached[key] = weakref.ref(table), make(table, *arguments, **named)
        return cached[key][1]

    return get_or_make
