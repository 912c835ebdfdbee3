"""What took cores away from a case while it was timed, told in words where it was enough to matter."""

from collections.abc import Mapping
from typing import Any

LIMITS = {
    "steal_s": (0.01, "other machines of the host took {:.1%} of a core"),
    "throttled_s": (0.01, "held back by a CPU quota for {:.1%} of the time"),
    "pressure_s": (0.1, "some task waited for a core for {:.1%} of the time"),
}
"""Per counter of `benchkit.disturbance` the share of the measuring time beyond which it is told."""
MOST_SWITCHES_PER_SECOND = 100.0
"""Of a rank, taken off its core by other tasks."""


def describe(case: Mapping[str, Any], slowed_by: str = "") -> str:
    """What disturbed the rank that was disturbed most; "" where nothing did, or no counter tells.

    slowed_by: what slows ranks down on purpose; a quota that does is no disturbance.
    """
    elapsed_s, counted = case.get("elapsed_s"), case.get("disturbance") or {}
    if not elapsed_s:
        return ""
    found = []
    for name, (limit, words) in LIMITS.items():
        share = max(counted.get(name, [0.0])) / elapsed_s
        if share > limit and not (name == "throttled_s" and "cgroup" in slowed_by):
            found.append(words.format(share))
    switches = max(counted.get("involuntary_switches", [0.0])) / elapsed_s
    if switches > MOST_SWITCHES_PER_SECOND:
        found.append(f"a rank lost its core {switches:.0f} times a second")
    return "; ".join(found)
