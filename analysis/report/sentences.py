"""analysis.txt: the table as sentences; ratios are formed within each run."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import pandas as pd

from analysis.records.doubts import NEAR, SPIKE
from analysis.records.results import Row
from analysis.report.naming import Namer
from analysis.shared.text import milliseconds, shorten_reason, time_text
from analysis.table.combine import oversubscribed_ranks, oversubscribed_rows, reasons, suite_columns
from analysis.table.repetitions import WITHIN, describe_floor, describe_runs
from benchkit.measure.clocks import HostClock
from benchkit.record.naming import ratio_interval
from benchkit.record.record import HARMLESS, UNFINISHED
from benchkit.statistics.intervals import fewest_values
from benchkit.statistics.judgement import AHEAD, BEHIND, judge_interval
from benchkit.statistics.rank_tests import SignedRank

FILE_NAME = "noise.md"
NOISY_REL_CI = 0.05
"""A median with a wider rel_ci than this is called noisy."""
STRAGGLING_SHARE = 0.75
"""A rank that ends last in more than this share of the samples is reported. The share expected by
chance is 1 / ranks."""
SPIKY_SHARE = 0.01
OF_NOISE = (
    "median_s", "ci_low_s", "ci_high_s", "rel_ci", "p99_s", "stopped_by", "converged", "steady",
    "straggler_rank", "straggler_share", "disturbed", "spikes_all_share", "spikes_some_share",
    "slow_mode_ratio", "slow_mode_share",
)  # fmt: skip


def summary(measured: pd.DataFrame) -> Iterator[str]:
    """Yield one line that counts the sentences of `noise` by kind; none without noise."""
    with_ranks = measured[measured["world_size"] > 1]
    spikes = measured["spikes_all_share"] + measured["spikes_some_share"]
    wide = measured["rel_ci"] > NOISY_REL_CI
    widest = f" (the widest to ±{100 * measured['rel_ci'].max():.0f} %)" if wide.any() else ""
    counts = {
        f"known to more than ±{100 * NOISY_REL_CI:.0f} % only{widest}": wide,
        "with a straggler": with_ranks["straggler_share"] > STRAGGLING_SHARE,
        "with spikes": spikes > SPIKY_SHARE,
        "with times of two modes": measured["slow_mode_ratio"].notna(),
        "disturbed": measured["disturbed"].notna(),
    }
    parts = [f"{flags.sum()} {what}" for what, flags in counts.items() if flags.any()]
    if parts:
        yield f"Of {len(measured)} medians {', '.join(parts)}: {FILE_NAME} names them."


def as_markdown(lines: Sequence[str]) -> str | None:
    """Return the page with all sentences on noise; None without any."""
    return "\n".join(["# Noise", "", *(f"- {line}" for line in lines)]) if lines else None


def noise_sentences(measured: pd.DataFrame) -> Iterator[str]:
    """Yield oversubscribed ranks, uncertain medians, stragglers and disturbances."""
    if ranks := oversubscribed_ranks(measured):
        points = number_of(measured[oversubscribed_rows(measured)], "point")
        yield f"{ranks.capitalize()} ({points}): these time the scheduler, too."
    yield from sentences_of(noise, measured, Namer(measured), OF_NOISE)


def noise(name: str, row: Row) -> Iterator[str]:
    yield from uncertainty(name, row)
    yield from straggler(name, row)
    yield from disturbances(name, row)


def uncertainty(name: str, row: Row) -> Iterator[str]:
    """Yield a sentence if a median has a wide interval, or did not reach its target."""
    if row["rel_ci"] > NOISY_REL_CI:
        interval = time_text(row["median_s"], row["ci_low_s"], row["ci_high_s"], math.nan, math.nan)
        yield f"{name}: median {interval} ms {WITHIN}; p99 {milliseconds(row['p99_s'])}."
    elif pd.notna(row["converged"]) and not row["converged"]:
        width = 100 * row["rel_ci"]
        yield f"{name}: stopped by {row['stopped_by']} at ±{width:.1f} %, before its target."


def straggler(name: str, row: Row) -> Iterator[str]:
    if row["world_size"] > 1 and (row["straggler_share"] or 0) > STRAGGLING_SHARE:
        rank, share = row["straggler_rank"], 100 * row["straggler_share"]
        yield f"{name}: rank {rank:.0f} ends last in {share:.0f} % of the samples."


def disturbances(name: str, row: Row) -> Iterator[str]:
    """Yield sentences on lost cores, a short warm-up, spikes, and slow modes."""
    if pd.notna(row["disturbed"]):
        yield f"{name}: disturbed: {row['disturbed']}."
    if pd.notna(row["steady"]) and not row["steady"]:
        yield (
            f"{name}: calls still got faster when the warm-up ended; "
            "raise measure.max_warmup_seconds."
        )
    on_all, on_some = 100 * row["spikes_all_share"], 100 * row["spikes_some_share"]
    if row["spikes_all_share"] + row["spikes_some_share"] > SPIKY_SHARE:
        several = row["world_size"] > 1
        where = f" on all ranks at once, {on_some:.1f} % on some only" if several else ""
        share = f"{on_all:.1f} % of the samples"
        yield f"{name}: {share} took over {SPIKE:g} times the median{where}."
    if pd.notna(row["slow_mode_ratio"]):
        ratio, share = row["slow_mode_ratio"], 100 * row["slow_mode_share"]
        yield f"{name}: two modes: {share:.0f} % of the calls take {ratio:.3g} times as long."


def has_rough_clocks(measured: pd.DataFrame) -> pd.Series:
    """Return a boolean mask of the rows whose host clocks are too imprecise to compare ranks."""
    on_host_clock = measured["clock"] == HostClock.name
    return measured["start_uncertainty_s"].gt(0) & measured["makespan_s"].isna() & on_host_clock


def rough_clock(name: str, row: Row) -> Iterator[str]:
    error = milliseconds(row["start_uncertainty_s"])
    yield (
        f"{name}: the hosts' clocks are known to {error} only, "
        "so there is no makespan, skew or straggler."
    )


ALPHA = 0.05
LEAK_BYTES = 2**20
"""Growth of memory per point above which reused ranks are reported to leak."""


def reuse_sentences(measured: pd.DataFrame) -> Iterator[str]:
    """Yield, per suite, the effect of reused ranks on times, and their memory leaks."""
    reused = measured[measured["points_before"].fillna(0) > 0]
    for suite, rows in reused.groupby("suite"):
        points = number_of(rows.drop_duplicates(["run", "point_id"]), "point")
        ranks = "ranks that had measured others"
        yield f"{suite}: {points} measured by {ranks}{effect(rows)}."
    yield from leaks(measured)


def effect(rows: pd.DataFrame) -> str:
    """Format the ratio of times in reused ranks to those in fresh ranks.

    Each point measured both ways counts once, with the mean of its cases' log ratios.
    """
    logs = np.log(pd.to_numeric(rows["reuse_ratio"]))
    ratios = logs[logs.notna()].groupby([rows["run"], rows["point_id"]]).mean()
    if ratios.empty:
        return ", none of them by fresh ranks, too"
    test = SignedRank(ratios.to_numpy(dtype=float))
    interval = test.interval(ALPHA)
    ratio = f"{math.exp(test.estimate):.3f}"
    if len(ratios) < fewest_values(ALPHA):
        basis = f"{len(ratios)} pairs, too few for an interval"
        return f"; they take {ratio} times as long as fresh ranks ({basis})"
    is_changed = judge_interval(interval) in (AHEAD, BEHIND)
    meaning = "measure with ranks=fresh" if is_changed else "no change that shows"
    details = f"{ratio_interval(*np.exp(interval))}, {len(ratios)} pairs"
    return f"; they take {ratio} times as long as fresh ranks ({details}): {meaning}"


def leaks(measured: pd.DataFrame) -> Iterator[str]:
    points = measured.drop_duplicates(["run", "point_id"]).sort_values("started_at")
    for run, rows in points.groupby("run"):
        steps = rows["held_bytes"].diff()[rows["points_before"] > 0]
        growth = float(steps.median()) if steps.notna().any() else 0.0
        if growth > LEAK_BYTES:
            yield (
                f"{run}: ranks hold {growth / 2**20:.1f} MiB more with each point; "
                "this is a leak, and ranks=fresh avoids it."
            )


OF_FIRST_CALL = ("first_call_s", "first_call_ratio", "warm_from_call", "num_samples")


def first_call(name: str, row: Row) -> Iterator[str]:
    warm_s = row["first_call_s"] / row["first_call_ratio"]
    later = row["num_samples"] - row["num_samples"] // 2
    yield (
        f"{name}: the first call takes {milliseconds(row['first_call_s'])}, "
        f"{row['first_call_ratio']:.3g} times the median of the last {later:.0f} "
        f"({milliseconds(warm_s)}); call {row['warm_from_call']:.0f} is the first that takes "
        f"at most {NEAR:g} times that."
    )


FIRST_CALLS = "First calls"
FAILURES, NOT_MEASURED = "Failures", "Not measured"
DOUBTS, OVERVIEW = "Doubtful figures", "Overview"
RUNS, REUSE, NOISE = "Runs", "Ranks that stayed", "Noise"
CLOCKS, WARNINGS = "Clocks", "Warnings"
"""Titles of the paragraphs, in their order."""
NO_FAILURES = tuple(status for status in (*HARMLESS, *UNFINISHED) if status != "ok")
MOST_LINES = 20
"""Lines of the longest paragraph. For thousands of points, read the table."""


def describe(paragraphs: Mapping[str, Iterable[str]]) -> str:
    """Return the sentences of each paragraph below its title."""
    return "\n\n".join(filter(None, (as_paragraph(*paragraph) for paragraph in paragraphs.items())))


def findings(table: pd.DataFrame, points: pd.DataFrame) -> dict[str, Iterator[str]]:
    """Return the sentences of each paragraph by title, in order; noise has one line.

    Args:
        points: measured rows, merged over all runs.
    """
    measured = table[table["status"] == "ok"]
    status, name, name_of_all = table["status"], Namer(measured), Namer(table)
    with_reasons = table.assign(reason=reasons(table))
    not_measured = with_reasons[status.isin(NO_FAILURES)]
    failed = with_reasons[~status.isin(("ok", *NO_FAILURES))]
    first_calls = measured[measured["first_call_ratio"].notna()]
    warned = measured[measured["warning"].notna()].drop_duplicates(["point_id", "run", "warning"])
    point_name = Namer(measured, *suite_columns(measured))
    return {
        FIRST_CALLS: sentences_of(first_call, first_calls, name, OF_FIRST_CALL),
        FAILURES: sentences_of(outcome, failed, name_of_all, OF_OUTCOME),
        NOT_MEASURED: sentences_of(outcome, not_measured, name_of_all, OF_OUTCOME),
        DOUBTS: sentences_of(cell("doubt"), measured[measured["doubt"].notna()], name, ["doubt"]),
        OVERVIEW: overview(table),
        RUNS: spread_sentences(points),
        REUSE: reuse_sentences(measured),
        NOISE: summary(measured),
        CLOCKS: sentences_of(
            rough_clock, measured[has_rough_clocks(measured)], name, ["start_uncertainty_s"]
        ),
        WARNINGS: sentences_of(cell("warning"), warned, point_name, ["warning"]),
    }


def sentences_of(
    describe_row: Callable[[str, Row], Iterable[str]],
    rows: pd.DataFrame,
    name: Namer,
    columns: Sequence[str],
) -> Iterator[str]:
    """Yield the sentences on each row, made from its name and some columns."""
    for row in name.rows(rows, *columns):
        yield from describe_row(name(row), row)


def cell(column: str) -> Callable[[str, Row], Iterable[str]]:
    """Return a function that makes a sentence of a text column."""
    return lambda name, row: [f"{name}: {row[column]}."]


OF_OUTCOME = ("status", "failed_rank", "reason")


def outcome(name: str, row: Row) -> Iterator[str]:
    """Yield the status of a row, and its reason."""
    rank = "" if pd.isna(row["failed_rank"]) else f" on rank {row['failed_rank']:.0f}"
    yield f"{name}: {row['status']}{rank}: {shorten_reason(row['reason'])}"


def as_paragraph(title: str, lines: Iterable[str]) -> str:
    remaining = iter(lines)
    shown = [f"- {line}" for line in islice(remaining, MOST_LINES)]
    if num_more := sum(1 for _ in remaining):
        shown.append(f"- and {num_more} more like these: see combined.csv.")
    return "\n".join([title, *shown]) if shown else ""


def number_of(rows: pd.DataFrame, noun: str) -> str:
    return f"{len(rows)} {noun}{'s' * (len(rows) != 1)}"


def overview(table: pd.DataFrame) -> Iterator[str]:
    """Yield the number of rows by status, their hosts, and the time of measurement."""
    statuses = table["status"].value_counts()
    counts = ", ".join(f"{count} {status}" for status, count in statuses.items())
    hosts = ", ".join(sorted(table["host"].dropna().unique()))
    starts = " to ".join(dict.fromkeys((table["started_at"].min(), table["started_at"].max())))
    yield f"{number_of(table, 'row')} ({counts}) from {hosts}, in points started {starts}."


def spread_sentences(points: pd.DataFrame) -> Iterator[str]:
    """Yield how much runs differ: those of the report, and the noise floor of this machine."""
    yield from describe_runs(points, Namer(points))
    if line := describe_floor(points):
        yield f"{line[0].upper()}{line[1:]}."
