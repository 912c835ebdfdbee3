"""Computes how well the same work scales over devices: bands, Amdahl's law, reasons for a loss.

This module is pure arithmetic.
"""

import math
from collections.abc import Mapping
from typing import Any

from benchkit.suites.auto_shard.names import (
    COMMUNICATE,
    COMPUTE,
    CREATE,
    CREATES_WHOLE,
    FETCH,
    LATENCY_S,
    RANKS,
    WEAK,
    WORK_SHARE,
    Phase,
)

BANDS = ((6 / 7, "near perfect"), (4 / 7, "good"), (1 / 7, "poor"))
"""Least gains: at 8 devices speedups of 7, 5 and 2, as in GT (bwasti/gt2)."""
NO_BAND = "none"
SMALL_LOSS = 0.05
"""A loss below this share of the time needs no reason."""
MOST_OF_IT = 0.5
"""A share of the computing time that is lost.

Where devices that share no work lose this much, they hinder each other.
"""
EVEN = 1.05
"""The busiest device may have this many times its share of the work."""
NEARLY_ALL = 0.95
"""Where nothing is sharded, each device does at least this share of the whole work."""
ROUNDING = 1e-9
"""Gains are quotients: a speedup of exactly 5 is to count as 5."""
Row = Mapping[str, Any]
Finding = tuple[str, str]
"""A reason, and what to try; "" where there is nothing to say."""


def gain(speedup: float, devices: float, base: float) -> float:
    """Compute the share of what the further devices could add.

    It is 0 where they add nothing, and 1 where the speedup is ideal.
    """
    return (speedup - 1) / (devices / base - 1)


def band(speedup: float, devices: float, base: float) -> str:
    """Name the gain: GT's bands of speedup on 8 devices, for any number of them."""
    reached = gain(speedup, devices, base) + ROUNDING
    return next((word for least, word in BANDS if reached >= least), NO_BAND)


def serial_share(speedups: Mapping[int, float], base: int = 1) -> float:
    """Fit Amdahl's serial share of the time on one device.

    T(n) / T(base) = p + (1 - p) base / n is linear in p, the serial share of the time on `base`
    devices. It is fitted by least squares and clipped to what a share can be.

    Args:
        speedups: over `base` devices, by number of devices.
        base: the number of devices that the speedups are over.
    """
    factors = [1 - base / devices for devices in speedups]
    values = [1 / speedup - base / devices for devices, speedup in speedups.items()]
    products = sum(factor * value for factor, value in zip(factors, values, strict=True))
    squares = sum(factor**2 for factor in factors)
    of_base = min(1.0, max(0.0, products / squares))
    return of_base / (of_base + base * (1 - of_base))


def amdahl(serial: float, devices: float, base: int = 1) -> float:
    """Compute the speedup over `base` devices by Amdahl's law."""

    def relative_time(count: float) -> float:
        return serial + (1 - serial) / count

    return relative_time(base) / relative_time(devices)


def further_counts(measured: int) -> list[int]:
    """List the numbers of devices to predict for: powers of two beyond the most measured."""
    return [2**power for power in range(1, 7) if 2**power > measured]


def reason(row: Row, base: Row, independent: Row | None) -> Finding:
    """Find why a row is slower than its ideal, and what to try; the phase that loses most decides.

    Args:
        row: the case.
        base: the row on the fewest devices.
        independent: as many devices, each with a whole workload of its own.
    """
    if row["status"] in ("oom", "skipped"):
        return "out of memory", "more devices, smaller sizes or a smaller dtype"
    if row["status"] != "ok":
        return str(row["status"]), ""
    if base["status"] != "ok":
        return f"nothing to compare with: {base['status']} on {counted(base[RANKS])}", ""
    ideal = 1.0 if row["scaling"] == WEAK else base[RANKS] / row[RANKS]
    if row["median_s"] - ideal * base["median_s"] <= SMALL_LOSS * row["median_s"]:
        return "", ""
    lost = {phase: seconds(row, phase) - ideal * seconds(base, phase) for phase in Phase}
    worst = max(Phase, key=lambda phase: lost[phase])
    if lost[worst] <= 0:
        return "between the phases", "profile=true: its traces show where"
    if worst == COMPUTE:
        return of_compute(row, independent, lost[worst] / seconds(row, worst))
    return {CREATE: of_create, COMMUNICATE: of_communicate, FETCH: of_fetch}[worst](row)


def counted(devices: float) -> str:
    return "1 device" if devices == 1 else f"{devices:g} devices"


def seconds(row: Row, phase: Phase) -> float:
    """Return the time of a phase; 0 where the case does not have it."""
    value = row.get(f"{phase}_s")
    return 0.0 if value is None or math.isnan(value) else float(value)


def of_communicate(row: Row) -> Finding:
    latency_s = row.get(LATENCY_S) or 0.0
    if latency_s >= 0.5 * (seconds(row, COMMUNICATE) + seconds(row, FETCH)):
        return "too small: messages are mostly latency", "larger matrices, or fewer devices"
    return (
        "communication-bound",
        "a faster link or backend; more work per byte: more rows per step, resident weights",
    )


def of_fetch(row: Row) -> Finding:
    return "communication-bound: fetching the result", "leave results on the devices, fetch less"


def of_create(row: Row) -> Finding:
    if row.get(CREATES_WHOLE) is True:  # NaN where a case has no such detail
        return (
            "operands are created whole on each device",
            "operands that are sharded or resident, fewer devices",
        )
    return "creating operands", "resident operands, or a cheaper source of them"


def of_compute(row: Row, independent: Row | None, lost_share: float) -> Finding:
    """Find why computing takes longer than its ideal.

    Args:
        row: the case.
        independent: as many devices, each with a whole workload of its own.
        lost_share: the share of the computing time that is lost.
    """
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
