"""Describes what took cores away from a case while it was timed, where it was enough to matter."""

from benchkit.record.case import CaseRecord
from benchkit.record.gpu_state import CLOCK_REASONS, HOLDS_BACK

LIMITS = {
    "steal_s": (0.01, "other machines of the host took {:.1%} of a core"),
    "throttled_s": (0.01, "held back by a CPU quota for {:.1%} of the time"),
    "others_s": (0.1, "other processes used {:.0%} of a core"),
}
"""By counter: the share of the measuring time beyond which it is reported, and the words for it.
The time that tasks wait for a core is recorded (`pressure_s`) but not reported, because the ranks'
own threads wait too."""
MOST_FALLEN = 0.9
"""A lowest frequency below this share of the highest is reported."""
LEAST_S = 0.05
"""Less than this is never reported, because the kernel counts in ticks of a hundredth of a second.
"""


def describe(case: CaseRecord, slowed_by: str = "", num_hosts: int = 1) -> str:
    """Describe what disturbed the most disturbed rank.

    Args:
        case: a case of a record.
        slowed_by: the mechanism that slows ranks down on purpose; a quota that does this is no
            disturbance.
        num_hosts: of the job. What other processes did is known only where all ranks are on one
            host.

    Returns:
        The disturbances; "" where there is none, or where no counter was recorded.
    """
    elapsed_s, counted = case.elapsed_s, case.disturbance
    if not elapsed_s or not counted:
        return ""
    taken = {name: max(counted.get(name, [0.0])) for name in ("steal_s", "throttled_s")}
    if "cgroup" in slowed_by:
        del taken["throttled_s"]
    if num_hosts == 1 and "host_busy_s" in counted:
        taken["others_s"] = max(counted["host_busy_s"]) - sum(counted.get("own_busy_s", ()))
    found = [
        words.format(taken[name] / elapsed_s)
        for name, (limit, words) in LIMITS.items()
        if taken.get(name, 0.0) > max(LEAST_S, limit * elapsed_s)
    ]
    # An edited record may lack one of both.
    ranges = zip(counted.get("lowest_ghz", ()), counted.get("highest_ghz", ()), strict=False)
    lowest, highest = min(
        ranges,
        key=lambda ghz: ghz[0] - MOST_FALLEN * ghz[1],
        default=(0.0, 0.0),
    )
    if lowest < MOST_FALLEN * highest:
        found.append(f"a core's frequency was between {lowest:.2f} and {highest:.2f} GHz")
    return "; ".join([*found, *held_back(case)])


def held_back(case: CaseRecord) -> list[str]:
    """Return what held the clocks of a GPU back, on any rank, as far as it is known."""
    reasons = [int(bits) for bits in case.disturbance.get(CLOCK_REASONS, ())]
    found = [name for bit, name in HOLDS_BACK.items() if any(bits & bit for bits in reasons)]
    return [f"a GPU's clocks were held back: {', '.join(found)}"] if found else []
