"""analysis.txt: what the table says, in plain sentences."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pandas as pd

from analysis.records.noise import SPIKE
from analysis.records.rows import MAX_START_UNCERTAINTY
from analysis.repetitions import over_runs
from analysis.report.contests import contests, whole_work
from analysis.report.growth import growth
from analysis.report.naming import Namer, milliseconds, settings
from analysis.run_spread import WITHIN, told_of_runs
from analysis.table import identity_columns, own_columns
from analysis.text import named, shortened

NOISY_REL_CI = 0.05
"""A median known no better than this is called noisy."""
STRAGGLING_SHARE = 0.75
"""A rank that ends last in this share of the samples is named; by chance it would be 1 / ranks."""
SPIKY_SHARE = 0.01
"""More spikes than this are named."""
MOST_LINES = 20
"""Per paragraph; a report of thousands of points is read by its table."""


def describe(table: pd.DataFrame) -> str:
    """All findings, one paragraph per question."""
    measured = table[table["status"] == "ok"]
    points = over_runs(measured, *identity_columns(measured))
    return "\n\n".join(
        paragraph
        for title, lines in (
            ("Overview", overview(table)),
            ("Runs", told_of_runs(points, Namer(points))),
            ("Fastest and widest", extremes(points)),
            (
                "Growth with size",
                growth(measured, "data_size", lambda size: named("data_size", size)),
            ),
            (
                "Growth with ranks",
                growth(communicating(measured), "world_size", lambda ranks: f"{ranks:g} ranks"),
            ),
            ("Doubtful figures", doubtful(measured)),
            ("Noise", noise(measured)),
            ("Clocks", clocks(measured)),
            ("Warnings", warnings(measured)),
            ("Failures", failures(table)),
        )
        if (paragraph := as_paragraph(title, lines))
    )


def as_paragraph(title: str, lines: Iterable[str]) -> str:
    """A title and its sentences, "" where there are none."""
    remaining = iter(lines)
    shown = [f"- {line}" for line in islice(remaining, MOST_LINES)]
    if more := sum(1 for _ in remaining):
        shown.append(f"- and {more} more like these: see combined.csv.")
    return "\n".join([title, *shown]) if shown else ""


def overview(table: pd.DataFrame) -> Iterator[str]:
    """How many points, where and when."""
    counts = ", ".join(
        f"{count} {status}" for status, count in table["status"].value_counts().items()
    )
    hosts = ", ".join(sorted(table["host"].dropna().unique()))
    first, last = table["started_at"].min(), table["started_at"].max()
    yield f"{len(table)} rows ({counts}) from {hosts}, started {first} to {last}."


def extremes(measured: pd.DataFrame) -> Iterator[str]:
    """Per suite the highest bandwidth, and the fastest of each group of alternatives."""
    for _, rows in whole_work(communicating(measured)).groupby("suite"):
        name, rates = Namer(rows), pd.to_numeric(rows["busbw_gb_per_s"])
        if rates.notna().any():
            best = rows.loc[rates.idxmax()]
            yield f"The highest bus bandwidth is {best['busbw_gb_per_s']:.3g} GB/s, by {name(best)}."
        yield from (winner(group, name) for group in contests(rows))


def winner(alternatives: pd.DataFrame, name: Namer) -> str:
    """Which of several alternatives is the fastest, and by how much."""
    first, second = (row for _, row in alternatives.nsmallest(2, "median_s").iterrows())
    ways = [column for column in name.columns if alternatives[column].nunique(dropna=False) > 1]
    ahead = (
        f"{second['median_s'] / first['median_s']:.3g} times as fast as {settings(second, ways)}"
    )
    doubt = ", which their intervals do not tell apart"
    if pd.isna(first["ci_high_s"]) or pd.isna(second["ci_low_s"]):
        doubt = "; without an interval of both, that may be chance"
    elif first["ci_high_s"] < second["ci_low_s"]:
        doubt = ""
    return (
        f"{name(first, *ways)}: the fastest of {len(alternatives)} is {settings(first, ways)} "
        f"with {milliseconds(first['median_s'])}, {ahead}{doubt}."
    )


def communicating(measured: pd.DataFrame) -> pd.DataFrame:
    """Without the single ranks of suites that measure a bandwidth: they communicate nothing."""
    has_rate = measured.groupby("suite")["busbw_gb_per_s"].transform(
        lambda rates: rates.notna().any()
    )
    return measured[~(has_rate.astype(bool) & (measured["world_size"] == 1))]


def doubtful(measured: pd.DataFrame) -> Iterator[str]:
    """Figures that cannot be, and what may be wrong with them."""
    name = Namer(measured)
    for _, row in measured[measured["doubt"].notna()].iterrows():
        yield f"{name(row)}: {row['doubt']}."


def noise(measured: pd.DataFrame) -> Iterator[str]:
    """Crowded cores, medians that are not known well or did not converge, ranks that everybody waits for."""
    crowded = measured[measured["threads_per_rank"] > measured["cores_per_rank"]]
    for (ranks, cores), rows in crowded[crowded["device"] == "cpu"].groupby(
        ["world_size", "cores_per_rank"]
    ):
        yield f"{ranks} ranks had {cores:.2g} cores each in {len(rows)} points, which time the scheduler, too."
    name = Namer(measured)
    for _, row in measured.iterrows():
        width = 100 * row["rel_ci"] if pd.notna(row["rel_ci"]) else None
        if width is None:
            limit = row["stopped_by"] if row["stopped_by"] == "max_iterations" else "max_seconds"
            yield f"{name(row)}: no interval, too few independent samples; raise measure.{limit}."
        elif row["rel_ci"] > NOISY_REL_CI:
            low, high = (milliseconds(row[side]) for side in ("ci_low_s", "ci_high_s"))
            tail = row["p99_s"] / row["median_s"]
            yield f"{name(row)}: the median is known to [{low}, {high}] only {WITHIN}; p99 is {tail:.1f} times it."
        elif pd.notna(row["converged"]) and not row["converged"]:
            yield f"{name(row)}: stopped by {row['stopped_by']} at ±{width:.1f} %, before its target."
        if row["world_size"] > 1 and (row["straggler_share"] or 0) > STRAGGLING_SHARE:
            share = 100 * row["straggler_share"]
            yield f"{name(row)}: rank {row['straggler_rank']:.0f} ends last in {share:.0f} % of the samples."
        yield from disturbances(name(row), row)


def disturbances(name: str, row: Any) -> Iterator[str]:
    """What took cores away, spikes on all ranks or on some, and times of two kinds."""
    if pd.notna(row["disturbed"]):
        yield f"{name}: disturbed: {row['disturbed']}."
    if pd.notna(row["steady"]) and not row["steady"]:
        yield f"{name}: calls still got faster when the warm-up ended; raise measure.max_warmup_seconds."
    everywhere, some = row["spikes_all_share"], row["spikes_some_share"]
    if everywhere + some > SPIKY_SHARE:
        where = (
            f" on all ranks at once, {100 * some:.1f} % on some only"
            if row["world_size"] > 1
            else ""
        )
        yield f"{name}: {100 * everywhere:.1f} % of the samples took over {SPIKE:g} times the median{where}."
    if pd.notna(row["slow_mode_ratio"]):
        share = 100 * row["slow_mode_share"]
        yield f"{name}: times are of two kinds; {share:.0f} % take {row['slow_mode_ratio']:.3g} times as long."


def clocks(measured: pd.DataFrame) -> Iterator[str]:
    """Where hosts' clocks are known too roughly to tell starts apart."""
    name = Namer(measured)
    rough = (
        pd.to_numeric(measured["start_uncertainty_s"])
        > MAX_START_UNCERTAINTY * measured["median_s"]
    )
    for _, row in measured[rough].iterrows():
        error = milliseconds(row["start_uncertainty_s"])
        yield f"{name(row)}: the hosts' clocks are known to {error} only, so there is no makespan, skew or straggler."


def warnings(measured: pd.DataFrame) -> Iterator[str]:
    """What a point was warned of, once per point and run."""
    name = Namer(measured, *own_columns(measured))
    warned = measured[measured["warning"].notna()].drop_duplicates(["point_id", "run", "warning"])
    for _, row in warned.iterrows():
        yield f"{name(row)}: {row['warning']}."


def failures(table: pd.DataFrame) -> Iterator[str]:
    """Every row that is not ok, and why."""
    name = Namer(table)
    for _, row in table[table["status"] != "ok"].iterrows():
        rank = "" if pd.isna(row["failed_rank"]) else f" on rank {row['failed_rank']:.0f}"
        reason = row["reason"] if isinstance(row["reason"], str) else "no reason given"
        yield f"{name(row)}: {row['status']}{rank}: {shortened(reason)}"
