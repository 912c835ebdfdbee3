"""Finds the noise floor that applies to a run."""

import contextlib
import statistics
from pathlib import Path

from benchkit.record.context import NoiseFloor
from benchkit.record.environment import HostReport
from benchkit.record.record import Record
from benchkit.selftest.floor import (
    VALID_S,
    Fingerprint,
    MachineFloor,
    fingerprint,
    read,
    state_folder,
)


def floor_for(
    host: HostReport,
    world_size: int,
    threads: int,
    backend: str,
    seconds: float,
    *,
    device: str = "cpu",
    folder: Path | None = None,
) -> float | None:
    """Returns how far identical code may be from a ratio of 1 here, as a share.

    Args:
        host: where the runs ran: the environment of a record, or one of its agents.
        world_size: ranks of each run.
        threads: of each rank.
        backend: by which the ranks communicate.
        seconds: that a call takes; the size of the selftest that is nearest counts.
        device: cpu or cuda.
        folder: of noise_floor.json; by default the user's state folder.

    Returns:
        The bound of `statistics.compare.noise_floor`; None where no selftest of the last 30 days
        applies, or where its pairs were too few for a bound.
    """
    found = applying(fingerprint(host, world_size, threads, backend, device), folder)
    return found.nearest(seconds).floor if found else None


def applying(wanted: Fingerprint, folder: Path | None = None) -> MachineFloor | None:
    """Returns the floor of this fingerprint unless it is too old, or None."""
    with contextlib.suppress(ValueError):
        for floor in read(folder or state_folder()):
            if floor.fingerprint == wanted and 0 <= floor.age_s() <= VALID_S:
                return floor
    return None


def floor_of(record: Record) -> NoiseFloor | None:
    """Returns the noise floor that applies to a record.

    It is None where no case was measured, and where ranks ran on several hosts or were slowed down,
    which no selftest does.
    """
    cases = [case for case in record.cases if case.status == "ok" and case.samples_s]
    if not cases or len({agent.host for agent in record.agents}) > 1 or record.slowdown.mechanism:
        return None
    settings = record.settings
    threads, device = record.threads_per_rank, settings.hardware.device
    of_run = record.world_size, threads, settings.backend.name, device
    found = applying(fingerprint(record.environment, *of_run))
    if found is None:
        return None
    size = found.nearest(statistics.median(case.typical_s for case in cases))
    return NoiseFloor(id=found.id, age_s=found.age_s(), sigma_run=size.sigma_run, at=size.what)


def problem(folder: Path | None = None) -> str:
    """Returns why the file of floors is ignored, in one line; "" where it is readable or absent."""
    try:
        read(folder or state_folder())
    except ValueError as error:
        return str(error)
    return ""
