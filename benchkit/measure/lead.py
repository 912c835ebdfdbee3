"""How long a GPU is kept busy while the host queues a sample, so that no launch is waited for."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

MARGIN = 2.0
"""The lead as a multiple of the time that queueing takes."""
SLACK_S = 2e-4
"""What the lead has beyond that, in seconds: for the collective that aligns, and the event."""
LONGEST_S = 0.01
"""The longest lead in seconds. In a longer one the queue of launches, about a thousand, fills up,
and the host would wait for the device."""


@dataclass
class Lead:
    """The lead of a case's samples, as learnt from those before.

    Attributes:
        seconds: of the next sample.
        queueing_s: what queueing a sample took without a lead, in seconds; None if not known yet.
    """

    seconds: float = 0.0
    queueing_s: float | None = None

    def learn(self, queueing: Sequence[float]) -> None:
        """Sets the lead after a series of samples; alike on all ranks, which begin together.

        Calls that wait for the device take longer to queue by the lead. No lead can hide their
        launches, so they get none.

        Args:
            queueing: seconds in which the slowest rank queued a sample: [iteration].
        """
        if self.queueing_s is None:
            self.queueing_s = median(queueing)
            self.seconds = min(LONGEST_S, MARGIN * self.queueing_s + SLACK_S)
        elif min(queueing) - self.queueing_s > self.seconds / 2:
            self.seconds = 0.0
