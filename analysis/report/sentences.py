"""analysis.txt: what the table says, in plain sentences."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pandas as pd

from analysis.records.noise import SPIKE
from analysis.records.rows import MAX_START_UNCERTAINTY
from analysis.repetitions import over_runs
from analysis.report import reuse
from analysis.report.contests import contests, whole_work, winner
from analysis.report.growth import growth
from analysis.report.naming import Namer, milliseconds
from analysis.run_spread import WITHIN, describe_floor, describe_runs
from analysis.table import identity_columns, own_columns
from analysis.text import shortened
from benchkit.record.naming import named

NOISY_REL_CI = 0.05
"""A median with a wider rel_ci than this is called noisy."""
STRAGGLING_SHARE = 0.75
"""A rank that ends last in more than this share of the samples is named. By chance the share would
be 1 / ranks."""
SPIKY_SHARE = 0.01
"""A larger share of spikes than this is reported."""
OVERVIEW, RUNS, REUSE = "Overview", "Runs", "Ranks that stayed"
EXTREMES, WITH_SIZE, WITH_RANKS = "Fastest and widest", "Growth with size", "Growth with ranks"
DOUBTS, NOISE, CLOCKS = "Doubtful figures", "Noise", "Clocks"
WARNINGS, FAILURES = "Warnings", "Failures"
"""Titles of the paragraphs, in their order."""
MOST_LINES = 20
"""The longest paragraph. Of a report of thousands of points the table is read instead."""


def describe(table: pd.DataFrame) -> str:
    """Describe all findings, with one paragraph per question."""
    return "\n\n".join(filter(None, (as_paragraph(*found) for found in findings(table).items())))


def findings(table: pd.DataFrame) -> dict[str, Iterator[str]]:
    """Return the sentences of each paragraph, by its title and in order."""
    measured = table[table["status"] == "ok"]
    points = over_runs(measured, *identity_columns(measured))
    with_ranks = growth(communicating(measured), "world_size", lambda ranks: f"{ranks:g} ranks")
    return {
        OVERVIEW: overview(table),
        RUNS: spread(points),
        REUSE: reuse.describe(measured),
        EXTREMES: extremes(points),
        WITH_SIZE: growth(measured, "data_size", lambda size: named("data_size", size)),
        WITH_RANKS: with_ranks,
        DOUBTS: doubtful(measured),
        NOISE: noise(measured),
        CLOCKS: clocks(measured),
        WARNINGS: warnings(measured),
        FAILURES: failures(table),
    }


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
    yield f"{len(table)} rows ({counts}) from {hosts}, started {first} to {last}."


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
    for _, row in measured[measured["doubt"].notna()].iterrows():
        yield f"{name(row)}: {row['doubt']}."


def noise(measured: pd.DataFrame) -> Iterator[str]:
    """Yield crowded cores, uncertain medians, stragglers and disturbances."""
    crowded = measured[measured["threads_per_rank"] > measured["cores_per_rank"]]
    on_cpu = crowded[crowded["device"] == "cpu"]
    for (ranks, cores), rows in on_cpu.groupby(["world_size", "cores_per_rank"]):
        yield (
            f"{ranks} ranks had {cores:.2g} cores each in {len(rows)} points, "
            "which time the scheduler, too."
        )
    name = Namer(measured)
    for _, row in measured.iterrows():
        row_name = name(row)
        yield from uncertainty(row_name, row)
        yield from straggling(row_name, row)
        yield from disturbances(row_name, row)


def uncertainty(name: str, row: Any) -> Iterator[str]:
    """Yield that a median has no interval, or a wide one, or did not reach its target."""
    if pd.isna(row["rel_ci"]):
        limit = row["stopped_by"] if row["stopped_by"] == "max_iterations" else "max_seconds"
        yield f"{name}: no interval, too few independent samples; raise measure.{limit}."
    elif row["rel_ci"] > NOISY_REL_CI:
        low, high = (milliseconds(row[side]) for side in ("ci_low_s", "ci_high_s"))
        tail = row["p99_s"] / row["median_s"]
        yield (
            f"{name}: the median is known to [{low}, {high}] only {WITHIN}; "
            f"p99 is {tail:.1f} times it."
        )
    elif pd.notna(row["converged"]) and not row["converged"]:
        width = 100 * row["rel_ci"]
        yield f"{name}: stopped by {row['stopped_by']} at ±{width:.1f} %, before its target."


def straggling(name: str, row: Any) -> Iterator[str]:
    """Yield which rank all others wait for."""
    if row["world_size"] > 1 and (row["straggler_share"] or 0) > STRAGGLING_SHARE:
        rank, share = row["straggler_rank"], 100 * row["straggler_share"]
        yield f"{name}: rank {rank:.0f} ends last in {share:.0f} % of the samples."


def disturbances(name: str, row: Any) -> Iterator[str]:
    """Yield what took cores away, a warm-up that was too short, spikes, and slow modes."""
    if pd.notna(row["disturbed"]):
        yield f"{name}: disturbed: {row['disturbed']}."
    if pd.notna(row["steady"]) and not row["steady"]:
        yield (
            f"{name}: calls still got faster when the warm-up ended; "
            "raise measure.max_warmup_seconds."
        )
    everywhere, some = 100 * row["spikes_all_share"], 100 * row["spikes_some_share"]
    if row["spikes_all_share"] + row["spikes_some_share"] > SPIKY_SHARE:
        several = row["world_size"] > 1
        where = f" on all ranks at once, {some:.1f} % on some only" if several else ""
        share = f"{everywhere:.1f} % of the samples"
        yield f"{name}: {share} took over {SPIKE:g} times the median{where}."
    if pd.notna(row["slow_mode_ratio"]):
        ratio, share = row["slow_mode_ratio"], 100 * row["slow_mode_share"]
        yield f"{name}: times are of two kinds; {share:.0f} % take {ratio:.3g} times as long."


def clocks(measured: pd.DataFrame) -> Iterator[str]:
    """Yield where hosts' clocks are known too imprecisely to tell starts apart."""
    name = Namer(measured)
    limit_s = MAX_START_UNCERTAINTY * measured["median_s"]
    rough = pd.to_numeric(measured["start_uncertainty_s"]) > limit_s
    for _, row in measured[rough].iterrows():
        error = milliseconds(row["start_uncertainty_s"])
        yield (
            f"{name(row)}: the hosts' clocks are known to {error} only, "
            "so there is no makespan, skew or straggler."
        )


def warnings(measured: pd.DataFrame) -> Iterator[str]:
    """Yield the warnings of each point and run, once each."""
    name = Namer(measured, *own_columns(measured))
    warned = measured[measured["warning"].notna()].drop_duplicates(["point_id", "run", "warning"])
    for _, row in warned.iterrows():
        yield f"{name(row)}: {row['warning']}."


def failures(table: pd.DataFrame) -> Iterator[str]:
    """Yield every row that is not ok, and why."""
    name = Namer(table)
    for _, row in table[table["status"] != "ok"].iterrows():
        rank = "" if pd.isna(row["failed_rank"]) else f" on rank {row['failed_rank']:.0f}"
        reason = row["reason"] if isinstance(row["reason"], str) else "no reason given"
        yield f"{name(row)}: {row['status']}{rank}: {shortened(reason)}"
