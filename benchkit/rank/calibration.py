"""Calibrate throttles: measure each rank's slowdown factor with and without its throttle."""

from collections.abc import Callable, Sequence

import torch

from benchkit.rank.prober import TRIES, Prober
from benchkit.rank.throttle import CLOSE_ENOUGH, relative_error
from benchkit.record.record import SlowdownReport
from launch.slowdown.cgroup import MECHANISMS

WARN_BEYOND = 0.15
"""Error of a factor, relative to its target, above which the record has a warning."""
SIZES = {"cpu": 256, "cuda": 4096}  # rows and columns of the matrix, by device


def slowdown_warnings(slowdown: SlowdownReport) -> list[str]:
    pairs = zip(slowdown.asked, slowdown.measured or slowdown.asked, strict=True)
    return [
        f"rank {rank} is slowed {measured:.3g} times by {slowdown.mechanism}, asked {target:g}"
        for rank, (target, measured) in enumerate(pairs)
        if relative_error(measured, target) > WARN_BEYOND
    ]


def calibrate(prober: Prober, targets: Sequence[float], device: torch.device) -> SlowdownReport:
    """Adjust the throttles until each rank has its target factor, as far as possible.

    All ranks call this together. Each rank keeps its best setting, and the report has the factor
    measured with that setting.
    """
    matrix = torch.randn(SIZES[device.type], SIZES[device.type], device=device)

    def multiply() -> torch.Tensor:
        return torch.mm(matrix, matrix)

    mechanism = mechanisms_in_use(prober)
    if "mps" in mechanism:
        return SlowdownReport(
            asked=list(targets),
            mechanism=mechanism,
            measured=compare_shares(prober, targets, multiply),
            multiprocessors=multiprocessors(prober, device),
        )
    settings = []
    readings: list[list[float]] = []
    for _ in range(TRIES):
        settings.append(prober.controller.setting)
        measured = prober.slowdown_of(multiply)
        readings.append(measured)
        # All ranks have the factors of all, so they leave the loop together.
        if all(
            relative_error(*pair) <= CLOSE_ENOUGH for pair in zip(measured, targets, strict=True)
        ):
            break
        prober.controller.correct(measured[prober.rank])
    nearest = nearest_attempts(readings, targets)
    prober.controller.setting = settings[nearest[prober.rank]]
    measured_by_rank = [readings[attempt][rank] for rank, attempt in enumerate(nearest)]
    return SlowdownReport(asked=list(targets), mechanism=mechanism, measured=measured_by_rank)


def mechanisms_in_use(prober: Prober) -> str:
    index = MECHANISMS.index(prober.controller.throttle.mechanism)
    kinds = [int(row[0]) for row in prober.peers.all_gather([float(index)])]
    return "+".join(dict.fromkeys(MECHANISMS[kind] for kind in kinds if kind))


def compare_shares(
    prober: Prober, targets: Sequence[float], call: Callable[[], object]
) -> list[float]:
    """Measure the factors of ranks on GPU shares, which cannot be released.

    The least slowed rank is assumed to have its target factor.
    """
    [times] = prober.seconds_of(call)
    reference = targets.index(min(targets))
    return [time / times[reference] * targets[reference] for time in times]


def multiprocessors(prober: Prober, device: torch.device) -> list[int]:
    """Return the number of multiprocessors of each rank's GPU, or of its MPS share: [rank]."""
    count = torch.cuda.get_device_properties(device).multi_processor_count
    return [int(row[0]) for row in prober.peers.all_gather([float(count)])]


def nearest_attempts(readings: list[list[float]], targets: Sequence[float]) -> list[int]:
    """Return each rank's attempt with the smallest error: [attempt][rank] -> [rank]."""
    nearest = []
    for rank, factor in enumerate(targets):
        errors = [relative_error(reading[rank], factor) for reading in readings]
        nearest.append(errors.index(min(errors)))
    return nearest
