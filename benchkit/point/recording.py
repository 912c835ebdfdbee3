"""A point's record as its agent begins and stores it, even on a disk that is full or read-only."""

import contextlib
import datetime
import os
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from benchkit import environment
from benchkit.api.schema import as_dict
from benchkit.config.identity import point_id
from benchkit.point.agents import AgentGroup
from benchkit.point.placement import Placement
from benchkit.point.point import Point
from benchkit.record import files
from benchkit.record.context import Comparison
from benchkit.record.naming import printable
from benchkit.record.record import Record, SlowdownReport
from benchkit.selftest import lookup
from launch import topology

COMPARISON_VARIABLE = "BENCHKIT_COMPARISON"
"""Environment variable with the Comparison, as JSON, that a run belongs to.

It is no key of the configuration, because runs of older code, which lacks such a key, are compared
as well.
"""
RETRY_AFTER_S = (0.1, 1.0, 3.0)


def set_aside(folder: Path) -> int:
    """Renames the files of an earlier attempt at a point; returns the number of the next one."""
    names = [re.match(r"attempt_(\d+)\.", path.name) for path in folder.glob("attempt_*.json")]
    numbers = [int(name[1]) for name in names if name]
    number = 1 + max(numbers, default=0)
    if not (folder / files.FILE_NAME).exists():
        return number
    prefix = f"attempt_{number}"
    for path in [*folder.glob("*rank_*"), *folder.glob("alone_*")]:  # logs and traces
        if not path.name.startswith("attempt_"):
            path.rename(folder / f"{prefix}_{path.name}")
    # The record goes last: once it has its new name, so have all other files.
    (folder / files.FILE_NAME).rename(folder / f"{prefix}.json")
    return number + 1


def store(record: Record, folder: Path) -> None:
    """Writes a record to a folder that may be gone; on failure it retries for some seconds.

    Raises:
        OSError: the record cannot be written.
    """
    for pause_s in RETRY_AFTER_S:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.write(record, folder)
            return
        except OSError:
            time.sleep(pause_s)
    files.write(record, folder)


def keep_elsewhere(record: Record) -> Path | None:
    """Writes a record to a new temporary folder; returns its path, or None if that fails too."""
    with contextlib.suppress(OSError):
        return files.write(record, Path(tempfile.mkdtemp(prefix="benchkit-record-")))
    return None


def save(record: Record, folder: Path, group: AgentGroup) -> str:
    """Writes the record on agent 0.

    Returns:
        "" on success; else why the record cannot be written and where it is kept instead.
    """
    if not group.agents.first:
        return ""
    try:
        store(record, folder)
    except OSError as error:
        kept = keep_elsewhere(record)
        where = f"; it is in {kept}" if kept else ""
        return f"{folder}: record not written: {error.strerror or error}{where}"
    return ""


def new_record(point: Point, plan: Placement) -> Record:
    """Returns the record as it stands before any rank runs."""
    config = point.config
    plain = as_dict(config)
    return Record(
        point_id=point_id(plain, plan.world_size),
        suite=config.suite,
        title=config.title(),
        status="running",
        config=plain,
        overrides=list(map(printable, point.overrides)),
        repetition=point.repetition,
        resumed_with=point.resumed_with,
        comparison=current_comparison(),
        world_size=plan.world_size,
        threads_per_rank=plan.threads,
        cores_per_rank=plan.cores_per_rank,
        launched_by=topology.detect_launcher().by,
        agents=plan.agents,
        slowdown=SlowdownReport(asked=list(plan.slowdown)),
        warnings=[*environment.version_differences(plan.agents), *plan.warnings],
        started_at=now(),
        environment=environment.describe(),
    )


def finished(record: Record, phases_s: Mapping[str, float]) -> Record:
    """Returns a record with its end, and with the noise floor that applies to it.

    Args:
        record: of a point that has ended.
        phases_s: as for `Record.finish`.
    """
    return replace(record.finish(now(), phases_s), noise_floor=lookup.floor_of(record))


def current_comparison() -> Comparison | None:
    """Returns the comparison that this run belongs to; None for a run on its own."""
    text = os.environ.get(COMPARISON_VARIABLE)
    return msgspec.json.decode(text, type=Comparison) if text else None


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
