"""The report of auto_shard: the same program on one device and on several."""

from collections.abc import Iterator
from statistics import geometric_mean

import pandas as pd

from analysis.records.results import Row
from analysis.report.markdown import document, format_run_spread
from analysis.shared.text import format_number, format_settings, format_with_interval
from analysis.shared.text_table import as_markdown
from analysis.suites.auto_shard.rows import (
    SHARDINGS,
    SPEEDUP,
    SUITE,
    ShardingGroup,
    amdahl,
    band,
    format_devices,
    further_counts,
    gain,
    groups_of,
    kind_of,
    reason,
    serial_share,
)
from analysis.table.repetitions import add_group_to_title
from benchkit.suites.auto_shard.suite import (
    END_TO_END,
    INDEPENDENT,
    RANKS,
    RESIDENT,
    SCOPE,
    SHARDING,
    WEAK,
)
from benchkit.suites.auto_shard.workloads import Phase

Lines = Iterator[Row]
SCOPES = {
    RESIDENT: "operands and result stay on the devices: compute + communicate",
    END_TO_END: "operands are created, the result is fetched: all four phases",
}
SHOWN = ("device", "device_name", "backend", "dtype", "scaling")
CONVENTIONS = (
    "Times are medians of the slowest rank, per step, with the rate of useful operations. "
    "Speedups{of} are over the fewest devices, with 95 % intervals, between cases of one job. "
    "Where one sharding is shown it is {main}."
)
LIMIT_NOTE = (
    "independent: a whole workload on each device, what this machine can do at all; "
    "the limit of the others."
)
RIVALS_NOTE = "How many times as fast as they auto is: ratio of medians."
PHASES_NOTE = (
    "Of each phase the rank that was longest in it, so phases may add up to more than a step."
)
PREDICTED_NOTE = (
    "Amdahl's law, fitted to the speedups on {counts} devices by least squares; "
    "nothing here was measured."
)


def comparison(group: ShardingGroup, scope: str) -> Lines:
    """Yield the rows of GT's table: the time on each number of devices, and the speedup."""
    if not group.counts:
        return
    # Jobs that failed as a whole have no scope.
    failed_jobs = {key[0]: row for key, row in group.cases.items() if pd.isna(key[-1])}
    for workload in group.rows["workload"].unique():
        base = group.bases.get((workload, scope), {})
        failed_job = failed_jobs.get(workload, {})
        line = {"size": workload}
        for count in group.counts:
            row = base
            if base.get(RANKS) != count:
                row = group.cases.get((workload, group.main, count, scope), failed_job)
            line[f"{format_devices(count)} [ms (TFLOP/s)]"] = format_time(row)
            if count > group.counts[0]:
                line[f"speedup on {count}"] = speedup_of(row)
        yield line


def format_time(row: Row) -> str:
    """Format "12.5 (0.172)", or the status."""
    if row.get("status") != "ok":
        return str(row.get("status", "-"))
    return f"{format_number(1e3 * row['median_s'])} ({row['useful_tflop_per_s']:.3g})"


def speedup_of(row: Row) -> str:
    """Format "1.93 [1.90, 1.95]"; "-" if not measured."""
    if pd.isna(row.get("speedup")):
        return "-"
    value, low, high = (row[name] for name in SPEEDUP)
    return format_with_interval(value, low, high)


def summary(rows: pd.DataFrame) -> Lines:
    """Summarise speedups by kind of workload, also relative to those of independent devices."""
    cell = ["workload", RANKS]
    limits = rows[rows[SHARDING] == INDEPENDENT].set_index(cell)["scaling_efficiency"]
    rows = rows.assign(kind=rows["workload"].map(kind_of))
    groups = rows.groupby([SCOPE, RANKS, SHARDING, "kind"], sort=False)
    for (scope, count, sharding, kind), part in groups:
        line = {
            "devices": int(count),
            "scope": scope,
            "sharding": sharding,
            "kind": kind,
            "workloads": len(part),
            "average (geometric)": geometric_mean(list(part["speedup"])),
            "min": part["speedup"].min(),
            "max": part["speedup"].max(),
        }
        shares = (part.set_index(cell)["scaling_efficiency"] / limits).dropna()
        if scope == RESIDENT and len(shares):
            line["share of the limit [%]"] = 100 * geometric_mean(list(shares))
        yield line


def rivals(group: ShardingGroup) -> Lines:
    """Yield the speedup of auto over the other shardings."""
    auto, *rival_names = SHARDINGS
    for (workload, sharding, count, scope), row in group.cases.items():
        if sharding != auto or row["status"] != "ok":
            continue
        ratios = {}
        for name in rival_names:
            if rival := group.cases.get((workload, name, count, scope)):
                ratios[f"over {name}"] = rival["median_s"] / row["median_s"]
        if ratios:
            yield {"workload": workload, "scope": scope, "devices": int(count)} | ratios


def findings(group: ShardingGroup) -> Lines:
    """Yield band and reason of the cases of the main sharding, and of all failed cases."""
    for (workload, sharding, count, scope), row in group.cases.items():
        if row["status"] == "ok" and (sharding != group.main or count == row["base_ranks"]):
            continue
        speedup = row["speedup"]
        line = {"workload": workload, "scope": scope, "sharding": sharding, "devices": count}
        line["speedup"] = speedup
        if pd.notna(speedup):
            line["gain [%]"] = 100 * gain(speedup, count, row["base_ranks"])
            line["band"] = band(speedup, count, row["base_ranks"])
        base = group.bases.get((workload, scope), {})
        independent = group.cases.get((workload, INDEPENDENT, count, RESIDENT))
        line["why not more"], line["what to try"] = reason(row, base, independent)
        yield line


def phases(group: ShardingGroup) -> Lines:
    """Yield the time of each phase of a step end to end, in ms."""
    for (workload, sharding, count, scope), row in group.cases.items():
        if scope == END_TO_END and row["status"] == "ok":
            line = {"workload": workload, "sharding": sharding, "devices": int(count)}
            line |= {f"{phase} [ms]": 1e3 * row[f"{phase}_s"] for phase in Phase}
            yield line | {"step [ms]": 1e3 * row["median_s"]}


def predict_speedups(group: ShardingGroup) -> Lines:
    """Yield speedups by Amdahl's law on more devices than measured."""
    beyond = further_counts(max(group.counts, default=0))
    if not beyond:
        return
    rows = group.further[group.further[SHARDING] == group.main]
    for (scope, workload), part in rows.groupby([SCOPE, "workload"], sort=False):
        base = int(part["base_ranks"].iloc[0])
        serial = serial_share(dict(zip(part[RANKS], part["speedup"], strict=True)), base)
        if not serial:  # without a serial share, speedups are unlimited
            continue
        line = {"workload": workload, "scope": scope, "serial share [%]": 100 * serial}
        yield line | {
            f"speedup on {count} (predicted)": amdahl(serial, count, base) for count in beyond
        }


def write(table: pd.DataFrame) -> dict[str, str]:
    texts = {}
    for group in groups_of(table):
        text = document(*parts_of(group))
        texts[f"{SUITE}{group.suffix}.md"] = add_group_to_title(text, group.suffix)
    return texts


def parts_of(group: ShardingGroup) -> Iterator[str]:
    rows = group.rows
    weak = rows["scaling"].iloc[0] == WEAK
    yield "# The same program on one device and on several"
    yield CONVENTIONS.format(of=" of the rate of work" if weak else "", main=group.main)
    yield format_run_spread(rows[rows["status"] == "ok"])
    yield f"All rows: {settings_of(rows)}."
    for title, note, lines in sections_of(group, weak):
        if shown := list(lines):
            yield document(f"## {title}", note, as_markdown(shown))


def settings_of(rows: pd.DataFrame) -> str:
    return format_settings(rows, [name for name in SHOWN if rows[name].notna().all()])


def sections_of(group: ShardingGroup, weak: bool) -> Iterator[tuple[str, str, Lines]]:
    """Yield each section's title, its note ("" for none) and its rows."""
    for scope, text in SCOPES.items():
        yield f"{scope}: {text}", "", comparison(group, scope)
    yield "Summary", LIMIT_NOTE, summary(group.further)
    yield "Auto against the others", RIVALS_NOTE, rivals(group)
    yield "Why not more", "", findings(group)
    yield "Phases", PHASES_NOTE, phases(group)
    if not weak:
        note = PREDICTED_NOTE.format(counts="/".join(map(str, group.counts[1:])))
        yield "More devices than here (predicted)", note, predict_speedups(group)
