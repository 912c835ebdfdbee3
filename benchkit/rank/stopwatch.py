"""Notes when each phase of a rank began, and tells the agent."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

DOING = {
    "init": "joining the other ranks",
    "calibrate": "calibrating the slowdown",
    "build": "building cases",
    "verify": "verifying",
    "measure": "measuring",
    "verify_again": "verifying again",
    "profile": "profiling",
    "exit": "ending",
}
"""What a rank does in each phase, in words."""


def ignore(note: str) -> None:
    """Takes a note that nobody reads."""


@dataclass
class Stopwatch:
    """Notes when each phase began, on the host's monotonic clock, which the agent shares.

    Attributes:
        began_s: seconds on that clock, by phase.
        tell: takes what the rank does now, in words; not called while samples are taken.
    """

    began_s: dict[str, float] = field(default_factory=dict)
    tell: Callable[[str], None] = ignore

    def enter(self, phase: str, what: str = "") -> None:
        """Begins a phase; `what` says with how much, such as "12 cases"."""
        self.tell(f"{DOING[phase]} {what}".rstrip())
        self.began_s[phase] = time.perf_counter()
