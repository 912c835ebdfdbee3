"""One rank's throttle with the setting that gives the factor asked for."""

import math
from dataclasses import dataclass

from launch.slowdown.throttle import Throttle

CLOSE_ENOUGH = 0.05
"""A throttle that is off by less, as a share of the factor, stays as it is."""


@dataclass
class ThrottleController:
    """One rank's throttle, the factor asked for, and the setting found to give it."""

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
        """Releases the throttle for a case that runs at full speed, else applies it."""
        if unslowed:
            self.release()
        else:
            self.apply()

    def correct(self, measured: float) -> None:
        """Corrects the setting in proportion to the error of the measured factor.

        One reading changes it by a factor of two at most, because the error may be noise.
        """
        if self.factor > 1 and miss(measured, self.factor) > CLOSE_ENOUGH:
            missing = (self.factor - 1) / (measured - 1) if measured > 1 else math.inf
            self.setting = 1 + (self.setting - 1) * min(2.0, max(0.5, missing))


def miss(measured: float, asked: float) -> float:
    """Returns how far a factor is from the one asked for, as a share of the latter."""
    return abs(measured / asked - 1)
