"""The throttle of one rank: on and off around samples, and corrected to give its factor."""

import math
from dataclasses import dataclass

from launch.slowdown.cgroup import Throttle

CLOSE_ENOUGH = 0.05
"""Error of a factor, as a share, below which a throttle stays as it is."""


@dataclass
class ThrottleController:
    """One rank's throttle, its factor, and the setting found to give it."""

    throttle: Throttle
    factor: float
    setting: float

    def apply(self) -> None:
        if self.factor > 1:
            self.throttle.apply(self.setting)

    def release(self) -> None:
        if self.factor > 1:
            self.throttle.release()

    def set_for(self, unslowed: bool) -> None:
        """Release the throttle for a case that runs at full speed, else apply it."""
        if unslowed:
            self.release()
        else:
            self.apply()

    def correct(self, measured: float) -> None:
        """Correct the setting in proportion to the error of the measured factor.

        One reading changes it by a factor of two at most, because the error may be noise.
        """
        if self.factor > 1 and relative_error(measured, self.factor) > CLOSE_ENOUGH:
            missing = (self.factor - 1) / (measured - 1) if measured > 1 else math.inf
            self.setting = 1 + (self.setting - 1) * min(2.0, max(0.5, missing))


def relative_error(measured: float, asked: float) -> float:
    return abs(measured / asked - 1)
