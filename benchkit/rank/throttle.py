"""Control of one rank's throttle: apply and release it around samples, correct its setting."""

import math
from dataclasses import dataclass

from launch.slowdown.cgroup import Throttle

CLOSE_ENOUGH = 0.05
"""Relative error of a factor below which the setting is kept."""


@dataclass
class ThrottleController:
    """One rank's throttle, its target factor, and the setting calibrated to reach it."""

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

        One correction is at most a factor of two, because the error may be noise.
        """
        if self.factor > 1 and relative_error(measured, self.factor) > CLOSE_ENOUGH:
            correction = (self.factor - 1) / (measured - 1) if measured > 1 else math.inf
            self.setting = 1 + (self.setting - 1) * min(2.0, max(0.5, correction))


def relative_error(measured: float, target: float) -> float:
    return abs(measured / target - 1)
