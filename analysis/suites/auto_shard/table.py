"""The same program on one device and on several: times, speedups, reasons, phases, and Amdahl's law beyond."""

from collections.abc import Iterator
from statistics import geometric_mean
from typing import Any

import pandas as pd

from analysis.run_spread import told_of_runs
from analysis.suites.auto_shard.rows import (
    END_TO_END,
    INDEPENDENT,
    LIMITS,
    RESIDENT,
    SHARDINGS,
    SUITE,
    Group,
    groups_of,
)
from analysis.suites.auto_shard.scaling import (
    PHASES,
    Row,
    amdahl,
    band,
    counted,
    further_counts,
    gain,
    reason,
    serial_share,
)
from analysis.table import as_markdown
from analysis.text import digits, format_settings

SCOPES = {
    RESIDENT: "operands and result stay on the devices: compute + communicate",
    END_TO_END: "operands are created, the result is fetched: all four phases",
}
TOLD = ("device", "device_name", "backend", "dtype", "scaling")
CONVENTIONS = (
    "Times are medians of the slowest rank, per step, with the rate of useful operations. Speedups{of} are over the "
    "fewest devices, with 95 % intervals, between cases of one job. Where one sharding is shown it is {main}."
)
LIMIT_NOTE = "independent: a whole workload on each device, what this machine can do at all; the limit of the others."
PHASES_NOTE = "Of each phase the rank that was longest in it, so phases may add up to more than a step."
PREDICTED_NOTE = "Amdahl's law, fitted to the speedups on {counts} devices by least squares; nothing here was measured."
Lines = Iterator[dict[str, Any]]


def write(table: pd.DataFrame) -> dict[str, str]:
    return {f"{SUITE}{group.suffix}.md": "\n\n".join(filter(None, parts_of(group))) for group in groups_of(table)}


def parts_of(group: Group) -> Iterator[str]:
    weak, counts = group.rows["scaling"].iloc[0] == "weak", "/".join(map(str, group.counts[1:]))
    yield "# The same program on one device and on several"
    yield CONVENTIONS.format(of=" of the rate of work" if weak else "", main=group.main)
    yield " ".join(told_of_runs(group.rows[group.rows["status"] == "ok"]))
    yield f"All rows: {format_settings(group.rows, [name for name in TOLD if group.rows[name].notna().all()])}."
    sections = [
        *((f"{scope}: {text}", "", comparison(group, scope)) for scope, text in SCOPES.items()),
        ("Summary", LIMIT_NOTE, summary(group.further)),
        ("Auto against the others", "How many times as fast as they auto is: ratio of medians.", rivals(group)),
        ("Why not more", "", findings(group)),
        ("Phases", PHASES_NOTE, phases(group)),
        (
            "More devices than here (predicted)",
            PREDICTED_NOTE.format(counts=counts),
            iter(()) if weak else predicted(group),
        ),
    ]
    for title, note, lines in sections:
        if shown := list(lines):
            yield "\n\n".join(filter(None, (f"## {title}", note, as_markdown(pd.DataFrame(shown), shaped=True))))


def comparison(group: Group, scope: str) -> Lines:
    """GT's table: times on each number of devices, and the speedup."""
    lost = {workload: row for (workload, *_, name), row in group.cases.items() if pd.isna(name)}  # whole jobs failed
    for workload in group.rows["workload"].unique() if group.counts else ():
        base, line, none = group.bases.get((workload, scope), {}), {"size": workload}, lost.get(workload, {})
        for count in group.counts:
            row = base if base.get("ranks") == count else group.cases.get((workload, group.main, count, scope), none)
            line[f"{counted(count)} [ms (TFLOP/s)]"] = timed(row)
            if count > group.counts[0]:
                line[f"speedup on {count}"] = speedup_of(row)
        yield line


def timed(row: Row) -> str:
    """ "12.5 (0.172)"; how it went where there is no time."""
    if row.get("status") != "ok":
        return str(row.get("status", "-"))
    return f"{digits(1e3 * row['median_s'])} ({row['useful_tflop_per_s']:.3g})"


def speedup_of(row: Row) -> str:
    """ "1.93 [1.90, 1.95]"; the number alone where there is no interval."""
    if pd.isna(row.get("speedup")):
        return "-"
    low, high = (row[name] for name in LIMITS)
    return f"{row['speedup']:.2f}" + (f" [{low:.2f}, {high:.2f}]" if pd.notna(low) and pd.notna(high) else "")


def summary(rows: pd.DataFrame) -> Lines:
    """Speedups over all workloads, and how near they come to what the devices reach where each works for itself."""
    cell = ["workload", "ranks"]
    limits = rows[rows["sharding"] == INDEPENDENT].set_index(cell)["scaling_efficiency"]
    for (scope, count, sharding), part in rows.groupby(["scope", "ranks", "sharding"], sort=False):
        line = {"devices": int(count), "scope": scope, "sharding": sharding, "workloads": len(part)}
        low, high, mean = part["speedup"].min(), part["speedup"].max(), geometric_mean(list(part["speedup"]))
        line |= {"average (geometric)": mean, "min": low, "max": high}
        shares = (part.set_index(cell)["scaling_efficiency"] / limits).dropna()
        if scope == RESIDENT and len(shares):
            line |= {"share of the limit [%]": 100 * geometric_mean(list(shares))}
        yield line


def rivals(group: Group) -> Lines:
    """How many times as fast as the other shardings auto is."""
    for (workload, sharding, count, scope), row in group.cases.items():
        others = {f"over {name}": group.cases.get((workload, name, count, scope)) for name in SHARDINGS[1:]}
        ratios = {name: other["median_s"] / row["median_s"] for name, other in others.items() if other}
        if sharding == SHARDINGS[0] and ratios and row["status"] == "ok":
            yield {"workload": workload, "scope": scope, "devices": int(count)} | ratios


def findings(group: Group) -> Lines:
    """Of the main sharding the band and the reason; and whatever failed."""
    for (workload, sharding, count, scope), row in group.cases.items():
        if row["status"] == "ok" and (sharding != group.main or count == row["base_ranks"]):
            continue
        line = {"workload": workload, "scope": scope, "sharding": sharding, "devices": count, "speedup": row["speedup"]}
        if pd.notna(row["speedup"]):
            line["gain [%]"] = 100 * gain(row["speedup"], count, row["base_ranks"])
            line["band"] = band(row["speedup"], count, row["base_ranks"])
        alone = group.cases.get((workload, INDEPENDENT, count, RESIDENT))
        found = reason(row, group.bases.get((workload, scope), {}), alone)
        yield line | dict(zip(("why not more", "what to try"), found, strict=True))


def phases(group: Group) -> Lines:
    for (workload, sharding, count, scope), row in group.cases.items():
        if scope == END_TO_END and row["status"] == "ok":
            spent = {f"{phase} [ms]": 1e3 * row[f"{phase}_s"] for phase in PHASES} | {
                "step [ms]": 1e3 * row["median_s"]
            }
            yield {"workload": workload, "sharding": sharding, "devices": int(count)} | spent


def predicted(group: Group) -> Lines:
    """Amdahl's law on more devices than were measured."""
    beyond = further_counts(max(group.counts, default=0))
    rows = group.further[group.further["sharding"] == group.main]
    for (scope, workload), mine in rows.groupby(["scope", "workload"], sort=False) if beyond else ():
        base = int(mine["base_ranks"].iloc[0])
        serial = serial_share(dict(zip(mine["ranks"], mine["speedup"], strict=True)), base)
        line = {"workload": workload, "scope": scope, "serial share [%]": 100 * serial}
        yield line | {f"speedup on {count} (predicted)": amdahl(serial, count, base) for count in beyond}
