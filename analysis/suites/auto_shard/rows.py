"""Comparable rows of auto_shard, and how their work scales over devices."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from analysis.records.results import Row
from analysis.records.suite_rows import convert_to_numeric
from analysis.report.chart import PAIRED_SPEEDUPS
from analysis.table.repetitions import aggregate_runs, group_equal_except
from benchkit.errors import ConfigError
from benchkit.suites.auto_shard.suite import (
    AUTO,
    AXIS0,
    CREATES_WHOLE,
    DISPATCHER,
    LATENCY_S,
    RANKS,
    SCOPE,
    SHARDING,
    UNSHARDED,
    WEAK,
    WORK_SHARE,
)
from benchkit.suites.auto_shard.workloads import (
    COMMUNICATE,
    COMPUTE,
    CREATE,
    FETCH,
    Kind,
    Phase,
    parse,
)

SUITE = "auto_shard"
CASE = ("workload", SHARDING, RANKS, SCOPE)
SHARDINGS = (AUTO, AXIS0, DISPATCHER)  # the rules that are compared with each other
SPEEDUP = ("speedup", *PAIRED_SPEEDUPS[1:])
NUMBERS = (
    RANKS, "median_s", "useful_tflop_per_s", "scaling_efficiency", WORK_SHARE, LATENCY_S,
    *PAIRED_SPEEDUPS, *(f"{phase}_s" for phase in Phase),
)  # fmt: skip
BANDS = ((6 / 7, "near perfect"), (4 / 7, "good"), (1 / 7, "poor"))
"""Least gain of each band: at 8 devices speedups of 7, 5 and 2, as in GT (bwasti/gt2)."""
NO_BAND, BEYOND = "none", "beyond ideal"
SMALL_LOSS = 0.05  # a loss below this share of the time is not explained
MOST_OF_IT = 0.5
"""If independent devices lose at least this share of the lost time, they share a resource."""
EVEN = 1.05  # largest work of the busiest device, as a multiple of its share
NEARLY_ALL = 0.95
"""Without sharding, each device does at least this share of the whole work."""
ROUNDING = 1e-9  # gains are quotients: a speedup of exactly 5 is to count as 5
Finding = tuple[str, str]  # a reason, and what to try; "" where there is nothing to say
BEYOND_ITS_IDEAL: Finding = (
    "faster than ideal: shards fit the caches, or the fewest devices were disturbed",
    "repeat=6 shows whether it lasts",
)


def gain(speedup: float, devices: float, base: float) -> float:
    """Compute the gain as a share of what further devices could add: 1 for the ideal speedup."""
    return (speedup - 1) / (devices / base - 1)


def band(speedup: float, devices: float, base: float) -> str:
    """Return the band of the gain: GT's bands of speedup on 8 devices, for any number."""
    if speedup * base > (1 + SMALL_LOSS) * devices:
        return BEYOND
    reached = gain(speedup, devices, base) + ROUNDING
    return next((word for least, word in BANDS if reached >= least), NO_BAND)


def kind_of(workload: str) -> str:
    """Return the kind of a workload, which GT averages separately: square, batch, MLP, or relu."""
    try:
        chain = parse(workload)
    except ConfigError:
        return "other"
    if chain.kind != Kind.MATMUL:
        return str(chain.kind)
    return "square" if {*chain.widths} == {chain.rows} else "batch"


def serial_share(speedups: Mapping[int, float], base: int = 1) -> float:
    """Fit Amdahl's serial share of the time on one device to speedups over `base` devices.

    T(n) / T(base) = p + (1 - p) base / n is linear in p, the serial share of the time on `base`
    devices. p is fitted by least squares and clipped to [0, 1].
    """
    factors = [1 - base / devices for devices in speedups]
    values = [1 / speedup - base / devices for devices, speedup in speedups.items()]
    products = sum(factor * value for factor, value in zip(factors, values, strict=True))
    squares = sum(factor**2 for factor in factors)
    of_base = min(1.0, max(0.0, products / squares))
    return of_base / (of_base + base * (1 - of_base))


def amdahl(serial: float, devices: float, base: int = 1) -> float:

    def relative_time(count: float) -> float:
        return serial + (1 - serial) / count

    return relative_time(base) / relative_time(devices)


def further_counts(measured: int) -> list[int]:
    """List powers of two beyond the largest number of devices that was measured."""
    return [2**power for power in range(1, 7) if 2**power > measured]


def reason(row: Row, base: Row, independent: Row | None) -> Finding:
    """Find why a row is slower than its ideal, and what to try, by the phase with the largest loss.

    Args:
        base: row on the fewest devices.
        independent: row on as many devices, with a whole workload on each.
    """
    if row["status"] in ("oom", "skipped"):
        return "out of memory", "more devices, smaller sizes or a smaller dtype"
    if row["status"] != "ok":
        return str(row["status"]), ""
    if base["status"] != "ok":
        return f"nothing to compare with: {base['status']} on {format_devices(base[RANKS])}", ""
    ideal = 1.0 if row["scaling"] == WEAK else base[RANKS] / row[RANKS]
    if row["median_s"] - ideal * base["median_s"] <= SMALL_LOSS * row["median_s"]:
        if row["median_s"] < (1 - SMALL_LOSS) * ideal * base["median_s"]:
            return BEYOND_ITS_IDEAL
        return "", ""
    lost = {phase: seconds(row, phase) - ideal * seconds(base, phase) for phase in Phase}
    worst = max(Phase, key=lambda phase: lost[phase])
    if lost[worst] <= 0:
        return "between the phases", "profile=true: its traces show where"
    if worst == COMPUTE:
        return compute_finding(row, independent, lost[worst] / seconds(row, worst))
    return {CREATE: create_finding, COMMUNICATE: communicate_finding, FETCH: fetch_finding}[worst](
        row
    )


def format_devices(devices: float) -> str:
    return "1 device" if devices == 1 else f"{devices:g} devices"


def seconds(row: Row, phase: Phase) -> float:
    value = row.get(f"{phase}_s")
    return 0.0 if value is None or math.isnan(value) else float(value)


def communicate_finding(row: Row) -> Finding:
    latency_s = row.get(LATENCY_S) or 0.0
    if latency_s >= 0.5 * (seconds(row, COMMUNICATE) + seconds(row, FETCH)):
        return "too small: messages are mostly latency", "larger matrices, or fewer devices"
    return (
        "communication-bound",
        "a faster link or backend; more work per byte: more rows per step, resident weights",
    )


def fetch_finding(row: Row) -> Finding:
    return "communication-bound: fetching the result", "leave results on the devices, fetch less"


def create_finding(row: Row) -> Finding:
    if row.get(CREATES_WHOLE) is True:  # NaN where a case has no such detail
        return (
            "operands are created whole on each device",
            "operands that are sharded or resident, fewer devices",
        )
    return "creating operands", "resident operands, or a cheaper source of them"


def compute_finding(row: Row, independent: Row | None, lost_share: float) -> Finding:
    """Find why the compute phase, which lost a share of its time, is slower than its ideal."""
    share = row.get(WORK_SHARE) or 0.0
    if share >= NEARLY_ALL * row[RANKS]:
        return (
            "too small: each device does all of it, since sharding would cost more",
            "larger matrices",
        )
    if share > EVEN:
        return (
            f"uneven: the busiest device has {share:.3g} times its share",
            "sizes that the devices divide evenly",
        )
    reached = (independent or {}).get("scaling_efficiency")
    # A reached efficiency of NaN fails the comparison.
    if reached is not None and 1 - reached >= MOST_OF_IT * lost_share:
        percent = f"{100 * reached:.0f} %"
        return (
            f"the devices share something: alone each, they reach {percent} of the ideal",
            "no sharding can do better here; memory bandwidth and turbo clocks are often shared",
        )
    return (
        "slower kernels: smaller shards run at a lower rate",
        "larger shards: larger matrices, or fewer devices",
    )


@dataclass(frozen=True)
class ShardingGroup:
    """Comparable rows, one per case; `suffix` is that of the files."""

    suffix: str
    rows: pd.DataFrame

    @cached_property
    def cases(self) -> dict[tuple[Any, ...], Row]:
        rows = self.rows.to_dict("records")
        return {tuple(row[name] for name in CASE): row for row in rows}

    @cached_property
    def bases(self) -> dict[tuple[str, str], Row]:
        """Baseline case by workload and scope."""
        bases = [row for row in self.cases.values() if row["is_base"]]
        return {(row["workload"], row[SCOPE]): row for row in bases}

    @property
    def counts(self) -> list[int]:
        return sorted(int(count) for count in self.rows[RANKS].dropna().unique())

    @property
    def main(self) -> str:
        """The sharding to show if only one is shown: auto, else the first that was measured."""
        return next((name for name in SHARDINGS if (self.rows[SHARDING] == name).any()), UNSHARDED)

    @property
    def further(self) -> pd.DataFrame:
        """Cases with a speedup over fewer devices."""
        has_more_ranks = self.rows[RANKS] > self.rows["base_ranks"]
        return self.rows[self.rows["speedup"].notna() & has_more_ranks]


def groups_of(table: pd.DataFrame) -> list[ShardingGroup]:
    """Group all cases, failed ones too, by `group_equal_except` the case."""
    rows = table[table["suite"] == SUITE]
    if rows.empty:
        return []
    rows = rows.reindex(columns=list(dict.fromkeys((*rows, *CASE, *NUMBERS))))
    groups = split_by_base_ranks(group_equal_except(convert_to_numeric(rows, NUMBERS), *CASE))
    return [ShardingGroup(suffix, add_speedup(part)) for suffix, part in groups]


def split_by_base_ranks(
    groups: Iterable[tuple[str, pd.DataFrame]],
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Add `base_ranks`, the fewest ranks of a workload and scope in a job, and split groups by it.

    Speedups are over `base_ranks`, so jobs that differ in it are in different groups. Jobs that
    failed as a whole have no ranks, and belong to each group.
    """
    job = ["run", "point_id", "started_at", "workload", SCOPE]
    for suffix, rows in groups:
        rows = rows.assign(base_ranks=rows.groupby(job, dropna=False)[RANKS].transform("min"))
        base_ranks = rows["base_ranks"]
        if rows.groupby("workload")["base_ranks"].nunique().max() < 2:
            yield suffix, rows
            continue
        for number in sorted(base_ranks.dropna().unique()):
            name = f"{suffix}_base_ranks-{number:g}"
            yield name, rows[base_ranks.isna() | (base_ranks == number)]


def add_speedup(rows: pd.DataFrame) -> pd.DataFrame:
    """Aggregate runs to one row per case, and add its speedup over the fewest devices."""
    rows = aggregate_runs(rows, *CASE)
    fewest = rows[rows[RANKS] == rows["base_ranks"]]
    # The base is the one without a paired speedup.
    first = fewest.sort_values("paired_speedup", na_position="first", kind="stable")
    is_base = rows.index.isin(first.drop_duplicates(["workload", SCOPE]).index)
    speedup = rows["paired_speedup"].mask(is_base & (rows["status"] == "ok"), 1.0)
    return rows.assign(is_base=is_base, speedup=speedup)
