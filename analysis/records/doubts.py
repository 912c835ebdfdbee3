"""Impossible figures and their likely causes. No other module judges whether a figure can be."""

from collections.abc import Iterator, Mapping
from typing import Any

MEASURED_PEAK = "best matrix product here"
"""How a case says that its peak rate is not a data sheet's."""
UTILISATIONS = ("mfu_full", "mfu_causal", "hfu_full")
WIDEST = 1.0
"""Half-width of an interval, as a share of the median: beyond, the median is hardly known."""
ROUNDING = 1e-9
"""Shares are quotients: one of exactly 100 % is in order."""


def doubt_of(figures: Mapping[str, Any], details: Mapping[str, Any]) -> str | None:
    """What is impossible among the figures of a case, and why it may be so; None where nothing is.

    Args:
        figures: metrics by name; shares of 1, None where they do not apply.
        details: what the suite tells of the case, of which `peak_from`, the source of its peak rate.
    """
    return "; ".join(found_in(figures, details)) or None


def found_in(figures: Mapping[str, Any], details: Mapping[str, Any]) -> Iterator[str]:
    """One sentence per cause."""
    if above := beyond_whole(figures, UTILISATIONS):
        measured = details.get("peak_from") == MEASURED_PEAK
        why = "the peak was measured beside it, on a busy machine" if measured else "the peak is too low"
        yield f"{above}: {why}"
    if above := beyond_whole(figures, ("efficiency",)):
        yield f"{above}: the probe saw a slower machine than the measurement, or the cost model is wrong"
    if above := beyond_whole(figures, ("limit_share", "comm_share")):
        yield f"{above}: a part alone took longer than the whole; it was disturbed, or runs faster within"
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
    """ "mfu_full 100.1 %": the shares above 1, "" where none is."""
    above = [name for name in names if value(figures, name, 0.0) > 1 + ROUNDING]
    return ", ".join(f"{name} {percent(figures[name])}" for name in above)


def value(figures: Mapping[str, Any], name: str, otherwise: float) -> float:
    found = figures.get(name)
    return otherwise if found is None else float(found)


def percent(share: float) -> str:
    return f"{100 * share:.4g} %"
