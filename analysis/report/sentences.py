"""analysis.txt: what the table says, in plain sentences."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

import pandas as pd

from analysis.baseline import Baseline
from analysis.repetitions import over_runs
from analysis.report import first_calls, noise, reuse, swept
from analysis.report.attempts import or_left_out
from analysis.report.contests import contests, whole_work, winner
from analysis.report.discover import modules_with
from analysis.report.growth import growth
from analysis.report.naming import Namer
from analysis.run_spread import describe_floor, describe_runs
from analysis.table import identity_columns, own_columns
from analysis.text import shortened
from benchkit.record.naming import named
from benchkit.record.statuses import HARMLESS, UNFINISHED

VERDICT, SPEEDUPS = "Verdict", "Speedups"
EXTREMES, WITH_SIZE, WITH_RANKS = "Fastest and widest", "Growth with size", "Growth with ranks"
FIRST_CALLS = "First calls"
FAILURES, NOT_MEASURED = "Failures", "Not measured"
DOUBTS, OVERVIEW = "Doubtful figures", "Overview"
RUNS, REUSE, NOISE = "Runs", "Ranks that stayed", "Noise"
CLOCKS, WARNINGS = "Clocks", "Warnings"
"""Titles of the paragraphs, in their order."""
NO_FAILURES = tuple(status for status in (*HARMLESS, *UNFINISHED) if status != "ok")
MOST_LINES = 20
"""The longest paragraph. Of a report of thousands of points the table is read instead."""


def describe(table: pd.DataFrame, baseline: Baseline | None = None) -> str:
    """Describe all findings, with one paragraph per question; noise takes one line.

    Args:
        table: the combined table.
        baseline: what speedups compare with, where one is asked for.
    """
    found = findings(table, baseline) | {NOISE: noise.summary(table[table["status"] == "ok"])}
    return "\n\n".join(filter(None, (as_paragraph(*each) for each in found.items())))


def findings(table: pd.DataFrame, baseline: Baseline | None = None) -> dict[str, Iterator[str]]:
    """Return the sentences of each paragraph, by its title and in order."""
    measured = table[table["status"] == "ok"]
    points = over_runs(measured, *identity_columns(measured))
    with_ranks = growth(communicating(measured), "world_size", lambda ranks: f"{ranks:g} ranks")
    concluded = [name for _, module in modules_with("conclude") for name in module.CONCLUDED]
    return {
        VERDICT: conclusions(table),
        SPEEDUPS: swept.describe(measured[~measured["suite"].isin(concluded)], baseline),
        EXTREMES: extremes(points[~points["suite"].isin(concluded)]),
        WITH_SIZE: growth(measured, "data_size", lambda size: named("data_size", size)),
        WITH_RANKS: with_ranks,
        FIRST_CALLS: first_calls.describe(measured),
        FAILURES: ends(table, ~table["status"].isin(("ok", *NO_FAILURES))),
        NOT_MEASURED: ends(table, table["status"].isin(NO_FAILURES)),
        DOUBTS: doubtful(measured),
        OVERVIEW: overview(table),
        RUNS: spread(points),
        REUSE: reuse.describe(measured),
        NOISE: noise.describe(measured),
        CLOCKS: noise.clocks(measured),
        WARNINGS: warnings(measured),
    }


def conclusions(table: pd.DataFrame) -> Iterator[str]:
    """Yield the conclusions of suites that have their own, on all of their records together."""
    for name, module in modules_with("conclude"):
        if table["suite"].isin(module.CONCLUDED).any():
            conclude = partial(list[str], module.conclude(table))
            yield from or_left_out(f"conclusion of {name}", conclude) or ()


def as_paragraph(title: str, lines: Iterable[str]) -> str:
    """Return a title and its sentences; "" where there are none."""
    remaining = iter(lines)
    shown = [f"- {line}" for line in islice(remaining, MOST_LINES)]
    if more := sum(1 for _ in remaining):
        shown.append(f"- and {more} more like these: see combined.csv.")
    return "\n".join([title, *shown]) if shown else ""


def overview(table: pd.DataFrame) -> Iterator[str]:
    """Say how many rows there are, and where and when they were measured."""
    statuses = table["status"].value_counts()
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    hosts = ", ".join(sorted(table["host"].dropna().unique()))
    first, last = table["started_at"].min(), table["started_at"].max()
    rows = "1 row" if len(table) == 1 else f"{len(table)} rows"
    yield f"{rows} ({counts}) from {hosts}, started {first} to {last}."


def spread(points: pd.DataFrame) -> Iterator[str]:
    """Yield how much runs differ: those of the report, and identical ones on this machine."""
    yield from describe_runs(points, Namer(points))
    if line := describe_floor(points):
        yield f"{line[0].upper()}{line[1:]}."


def extremes(measured: pd.DataFrame) -> Iterator[str]:
    """Yield each suite's highest bandwidth, and the fastest of each group of alternatives."""
    for _, rows in whole_work(communicating(measured)).groupby("suite"):
        name, rates = Namer(rows), pd.to_numeric(rows["busbw_gb_per_s"])
        if rates.notna().any():
            best = rows.loc[rates.idxmax()]
            rate = best["busbw_gb_per_s"]
            yield f"The highest bus bandwidth is {rate:.3g} GB/s, by {name(best)}."
        yield from (winner(group, name) for group in contests(rows))


def communicating(measured: pd.DataFrame) -> pd.DataFrame:
    """Leave out single ranks of suites that measure a bandwidth: they communicate nothing."""
    rates = measured.groupby("suite")["busbw_gb_per_s"]
    has_rate = rates.transform(lambda values: values.notna().any()).astype(bool)
    return measured[~(has_rate & (measured["world_size"] == 1))]


def doubtful(measured: pd.DataFrame) -> Iterator[str]:
    """Yield the impossible figures, and what may be wrong with them."""
    name = Namer(measured)
    for row in name.rows(measured[measured["doubt"].notna()], "doubt"):
        yield f"{name(row)}: {row['doubt']}."


def warnings(measured: pd.DataFrame) -> Iterator[str]:
    """Yield the warnings of each point and run, once each."""
    name = Namer(measured, *own_columns(measured))
    warned = measured[measured["warning"].notna()].drop_duplicates(["point_id", "run", "warning"])
    for row in name.rows(warned, "warning"):
        yield f"{name(row)}: {row['warning']}."


def ends(table: pd.DataFrame, is_shown: pd.Series) -> Iterator[str]:
    """Yield how some of the rows have ended, and why."""
    name = Namer(table)
    for row in name.rows(table[is_shown], "status", "failed_rank", "reason"):
        rank = "" if pd.isna(row["failed_rank"]) else f" on rank {row['failed_rank']:.0f}"
        reason = row["reason"] if isinstance(row["reason"], str) else "no reason given"
        yield f"{name(row)}: {row['status']}{rank}: {shortened(reason)}"
