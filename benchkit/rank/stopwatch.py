"""Notes when each phase of a rank began."""

import time
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """Notes when each phase began, on the host's monotonic clock, which the agent shares."""

    began_s: dict[str, float] = field(default_factory=dict)

    def enter(self, phase: str) -> None:
        self.began_s[phase] = time.perf_counter()
