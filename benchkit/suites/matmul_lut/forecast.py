"""Predicts the times of products, to leave out those that a point has no time for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchkit.api.case import Rank
from benchkit.api.groups import GRAPH, MeasureConfig

SMALL, PROBED = 64, 4096
"""Sizes that are timed: one whose call takes as little as any, one that occupies a whole GPU."""
TURNS = 3
CHECKS = 2
"""Calls to verify a case: one before and one after it is timed."""
CAPTURE = 2
"""Further calls where a graph takes the place of a case: one beside the capture, one to verify it.

The capture itself computes nothing.
"""
FILLING = 2
"""Samples that find the number of calls of a sample, where that is `auto`."""


@dataclass(frozen=True)
class Forecast:
    """Times of products of matrices [size, size] on the slowest rank; 0 where none was timed.

    Attributes:
        launch_s: seconds that any call takes at least.
        cube_s: seconds of a large product, divided by the cube of its size.
    """

    launch_s: float = 0.0
    cube_s: float = 0.0

    def seconds(self, size: int) -> float:
        """Returns the seconds of one call."""
        return max(self.launch_s, self.cube_s * size**3)

    def launches(self, sizes: Sequence[int]) -> str:
        """Returns a warning of the sizes whose call takes longer than their product; "" if none."""
        bound = [str(size) for size in sizes if self.cube_s * size**3 < self.launch_s]
        if not bound:
            return ""
        return (
            f"sizes {', '.join(bound)}: launching a product takes {1e6 * self.launch_s:.3g} us, "
            "longer than the product; these are times of launches"
        )


def forecast(
    sizes: Sequence[int], rank: Rank, product: Callable[[int], Callable[[], object]]
) -> Forecast:
    """Times a large product and, on a GPU, a small one; all ranks call this together.

    On a CPU launching takes no time, and nothing is timed unless there are larger sizes.

    Args:
        sizes: those of the job.
        rank: the rank that calls this.
        product: returns the call that multiplies matrices of a size.
    """
    on_cpu = rank.device.type == "cpu"
    if on_cpu and max(sizes) <= PROBED:
        return Forecast()
    timed = [PROBED] if on_cpu else [PROBED, SMALL]
    large, *small = map(max, rank.seconds_of(*map(product, timed), turns=TURNS))
    return Forecast(max(small, default=0.0), large / PROBED**3)


def fewest_calls(measure: MeasureConfig) -> int:
    """Returns how often a case is called at least, however long a call takes."""
    samples = 1 + measure.warmup_iterations
    untimed = CHECKS + (CAPTURE if measure.mode == GRAPH else 0)
    if measure.calls_per_sample == "auto":
        return untimed + FILLING + samples
    return untimed + samples * int(measure.calls_per_sample)
