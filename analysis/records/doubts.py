"""Finds impossible figures and names their likely causes.

No other module judges whether a figure is possible.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from benchkit.api.details import MEASURED_PEAK, PEAK_FROM

UTILISATIONS = ("mfu_full", "mfu_causal", "hfu_full")
WIDEST = 1.0
"""Half-width of an interval, as a share of the median. Beyond it the median is hardly known."""
ROUNDING = 1e-9
"""Tolerance of shares, which are quotients: exactly 100 % is possible."""


def doubt_of(figures: Mapping[str, Any], details: Mapping[str, Any]) -> str | None:
    """Describe the impossible figures of a case and their likely causes.

    Args:
        figures: metrics by name; shares are fractions of 1, and None where they do not apply.
        details: what the suite reports of the case. Of these PEAK_FROM is read, the source of the
            peak rate.

    Returns:
        The doubts, None where no figure is impossible.
    """
    return "; ".join(found_in(figures, details)) or None


def found_in(figures: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence per cause."""
    if above := beyond_whole(figures, UTILISATIONS):
        why = "the peak is too low"
        if details.get(PEAK_FROM) == MEASURED_PEAK:
            why = "the peak was measured beside it, on a busy machine"
        yield f"{above}: {why}"
    if above := beyond_whole(figures, ("efficiency",)):
        why = "the probe saw a slower machine than the measurement, or the cost model is wrong"
        yield f"{above}: {why}"
    if above := beyond_whole(figures, ("limit_share", "comm_share")):
        why = "a part alone took longer than the whole; it was disturbed, or runs faster within"
        yield f"{above}: {why}"
    overlap = figures.get("overlap")
    if overlap is not None:
        low, high = (value(figures, f"overlap_{end}", overlap) for end in ("low", "high"))
        if low > 1 + ROUNDING:
            why = "more than the shorter part was hidden, so the parts were disturbed"
            yield f"overlap {percent(overlap)}: {why}"
        if high < -1 - ROUNDING:
            why = "far slower than both parts one after the other; disturbed, or the parts collide"
            yield f"overlap {percent(overlap)}: {why}"
    if value(figures, "rel_ci", 0.0) > WIDEST:
        why = "the median is hardly known; take more samples, or a quieter machine"
        yield f"rel_ci ±{percent(figures['rel_ci'])}: {why}"


def beyond_whole(figures: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """List the shares above 1: "mfu_full 100.1 %"; "" where there is none."""
    above = [name for name in names if value(figures, name, 0.0) > 1 + ROUNDING]
    return ", ".join(f"{name} {percent(figures[name])}" for name in above)


def value(figures: Mapping[str, Any], name: str, otherwise: float) -> float:
    found = figures.get(name)
    return otherwise if found is None else float(found)


def percent(share: float) -> str:
    return f"{100 * share:.4g} %"
