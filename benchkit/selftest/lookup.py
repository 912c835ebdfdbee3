"""Finds the noise floor that applies to a run."""

import contextlib
import statistics

from benchkit.record.context import NoiseFloor
from benchkit.record.record import Record
from benchkit.selftest.floor import (
    VALID_S,
    Fingerprint,
    MachineFloor,
    fingerprint,
    read,
    state_folder,
)


def applying(wanted: Fingerprint) -> MachineFloor | None:
    """Returns the floor of this fingerprint unless it is too old, or None."""
    with contextlib.suppress(ValueError):
        for floor in read(state_folder()):
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


def problem() -> str:
    """Returns why the file of floors is ignored, in one line; "" where it is readable or absent."""
    try:
        read(state_folder())
    except ValueError as error:
        return str(error)
    return ""
