"""Names of rows for sentences, and which rows do the same work in several ways."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pandas as pd

from analysis.repetitions import over_runs
from analysis.table import identity_columns, is_repeated
from analysis.text import measured
from benchkit.record.naming import named
from benchkit.statistics.compare import percent


class Namer:
    """Name rows by what sets them apart from others of their suite: "allreduce (world_size=2)"."""

    def __init__(self, among: pd.DataFrame, *without: str) -> None:
        ignored = ("suite", *without)
        columns = [name for name in identity_columns(among) if name not in ignored]
        repeated = ["run"] if is_repeated(among) else []
        self.columns = {
            suite: [name for name in columns if rows[name].nunique(dropna=False) > 1] + repeated
            for suite, rows in among.groupby("suite")
        }

    def rows(self, table: pd.DataFrame, *columns: str) -> list[dict[str, Any]]:
        """Return rows as dictionaries with some columns and with those that name them.

        Thousands of rows of all columns, as objects of pandas, would take seconds.
        """
        named = chain.from_iterable(self.columns.values())
        shown = dict.fromkeys(("suite", "title", "world_size", *columns, *named))
        rows: list[dict[str, Any]] = table[list(shown)].to_dict("records")
        return rows

    def __call__(self, row: Any, *without: str) -> str:
        of = operation(row)
        columns = self.columns[row["suite"]]
        shown = [name for name in columns if name not in without and row[name] != of]
        held = settings(row, shown)
        return f"{of} ({held})" if held else of


def operation(row: Any) -> str:
    """Return what was measured: "all_reduce", or the suite where it has no such name."""
    return str(row["suite"] if pd.isna(row["title"]) else row["title"])


def settings(row: Any, columns: Iterable[str]) -> str:
    """Format the known settings of a row: "world_size=2, data_size=100 MiB"."""
    return ", ".join(f"{name}={named(name, row[name])}" for name in columns if pd.notna(row[name]))


def milliseconds(seconds: float) -> str:
    return f"{measured(seconds * 1e3)} ms"


WAYS = (
    "backend", "device", "host", "backend_env", "threads", "launched_by", "start_method",
    "processes",
)  # fmt: skip
"""Settings that change how the work is done. Every other setting is a size or a kind of work."""


def whole_work(measured: pd.DataFrame) -> pd.DataFrame:
    """Leave out parts that are timed alone, and what ran unslowed beside slowed ranks."""
    return measured[~(measured["is_component"].eq(True) | measured["unslowed"].eq(True))]


def contests(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield groups of two or more alternatives among the rows of one suite.

    Repeated points count once. Alternatives differ in WAYS only. Cases of a job are alternatives
    too, where they are compared with the same case on the same number of ranks; their jobs differ
    in WAYS only.
    """
    rows = over_runs(whole_work(rows), *identity_columns(rows))
    settings = [name for name in identity_columns(rows) if name not in WAYS]
    has_contest = rows["contest"].notna()
    compared, others = rows[has_contest], rows[~has_contest]
    jobs = compared.groupby(["point_id", "started_at"], dropna=False)
    labels = {name for name in settings if (jobs[name].nunique(dropna=False) > 1).any()}
    of_jobs = [*(name for name in settings if name not in labels), "contest"]
    for part, columns in ((compared, of_jobs), (others, settings)):
        if part.empty:
            continue
        for _, group in part.groupby(columns, dropna=False, sort=False):
            if len(group) > 1:
                yield group


def winner(alternatives: pd.DataFrame, name: Namer) -> str:
    """Say which of several alternatives is the fastest, and by how much."""
    best = alternatives.nsmallest(2, "median_s")
    first, second = (row for _, row in best.iterrows())
    varied = name.columns[alternatives["suite"].iloc[0]]
    ways = [column for column in varied if alternatives[column].nunique(dropna=False) > 1]
    ratio = second["median_s"] / first["median_s"]
    doubt = ", which their intervals do not tell apart"
    if pd.isna(first["ci_high_s"]) or pd.isna(second["ci_low_s"]):
        doubt = "; without an interval of both, that may be chance"
    elif first["ci_high_s"] < second["ci_low_s"]:
        floor = best["identical_runs"].max()
        is_below = best["num_runs"].max() == 1 and ratio - 1 < floor
        doubt = f", less than identical runs differ by (± {percent(floor)})" if is_below else ""
    return (
        f"{name(first, *ways)}: the fastest of {len(alternatives)} is {settings(first, ways)} "
        f"with {milliseconds(first['median_s'])}, "
        f"{ratio:.3g} times as fast as {settings(second, ways)}{doubt}."
    )
