"""Sentences on noise: uncertain medians, stragglers, disturbances and clocks."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.records.noise import SPIKE
from analysis.records.rows import MAX_START_UNCERTAINTY
from analysis.report.naming import Namer, milliseconds
from analysis.run_spread import WITHIN
from analysis.table import crowded

FILE_NAME = "noise.md"
NOISY_REL_CI = 0.05
"""A median with a wider rel_ci than this is called noisy."""
STRAGGLING_SHARE = 0.75
"""A rank that ends last in more than this share of the samples is named. By chance the share would
be 1 / ranks."""
SPIKY_SHARE = 0.01
"""A larger share of spikes than this is reported."""
OF_NOISE = (
    "median_s", "ci_low_s", "ci_high_s", "rel_ci", "p99_s", "stopped_by", "converged", "steady",
    "straggler_rank", "straggler_share", "disturbed", "spikes_all_share", "spikes_some_share",
    "slow_mode_ratio", "slow_mode_share",
)  # fmt: skip
"""Columns that the sentences on noise are about."""


def summary(measured: pd.DataFrame) -> Iterator[str]:
    """Yield one line that counts what `describe` says of each row; none without any noise."""
    with_ranks = measured[measured["world_size"] > 1]
    spikes = measured["spikes_all_share"] + measured["spikes_some_share"]
    wide = measured["rel_ci"] > NOISY_REL_CI
    widest = f" (the widest to ±{100 * measured['rel_ci'].max():.0f} %)" if wide.any() else ""
    counts = {
        f"known to more than ±{100 * NOISY_REL_CI:.0f} % only{widest}": wide,
        "without an interval": measured["median_s"].notna() & measured["rel_ci"].isna(),
        "with a straggler": with_ranks["straggler_share"] > STRAGGLING_SHARE,
        "with spikes": spikes > SPIKY_SHARE,
        "with times of two kinds": measured["slow_mode_ratio"].notna(),
        "disturbed": measured["disturbed"].notna(),
    }
    parts = [f"{flags.sum()} {what}" for what, flags in counts.items() if flags.any()]
    if parts:
        yield f"Of {len(measured)} medians {', '.join(parts)}: {FILE_NAME} names them."


def as_markdown(measured: pd.DataFrame) -> str | None:
    """Return the page of all that `describe` says; None without any noise."""
    lines = [f"- {line}" for line in describe(measured)]
    return "\n".join(["# Noise", "", *lines]) if lines else None


def describe(measured: pd.DataFrame) -> Iterator[str]:
    """Yield crowded cores, uncertain medians, stragglers and disturbances."""
    shared = measured[crowded(measured)]
    for (ranks, cores), rows in shared.groupby(["world_size", "cores_per_rank"]):
        yield (
            f"{ranks} ranks had {cores:.2g} cores each in {len(rows)} points, "
            "which time the scheduler, too."
        )
    name = Namer(measured)
    for row in name.rows(measured, *OF_NOISE):
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
    for row in name.rows(measured[rough], "start_uncertainty_s"):
        error = milliseconds(row["start_uncertainty_s"])
        yield (
            f"{name(row)}: the hosts' clocks are known to {error} only, "
            "so there is no makespan, skew or straggler."
        )
