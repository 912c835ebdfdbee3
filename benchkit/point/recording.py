"""A point's record as its agent begins and stores it, even on a disk that is full or read-only."""

import contextlib
import datetime
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from benchkit import environment, record
from benchkit.api.schema import as_dict
from benchkit.point.agents import AgentGroup
from benchkit.point.outcome import error_report
from benchkit.point.placement import Placement
from benchkit.point.point import Point
from launch import topology

RETRY_AFTER_S = (0.1, 1.0, 3.0)


def set_aside(folder: Path) -> int:
    """Renames the files of an earlier attempt at a point; returns the number of the next one."""
    names = [re.match(r"attempt_(\d+)\.", path.name) for path in folder.glob("attempt_*.json")]
    numbers = [int(name[1]) for name in names if name]
    number = 1 + max(numbers, default=0)
    if not (folder / record.FILE_NAME).exists():
        return number
    prefix = f"attempt_{number}"
    for path in list(folder.glob("*rank_*")):  # logs and traces
        if not path.name.startswith("attempt_"):
            path.rename(folder / f"{prefix}_{path.name}")
    # The record goes last: once it has its new name, so have all other files.
    (folder / record.FILE_NAME).rename(folder / f"{prefix}.json")
    return number + 1


def store(result: dict[str, Any], folder: Path) -> None:
    """Writes a record to a folder that may be gone; on failure it retries for some seconds.

    Raises:
        OSError: the record cannot be written.
        TypeError: the record holds a value that JSON lacks.
    """
    for pause_s in RETRY_AFTER_S:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            record.write(result, folder)
            return
        except OSError:
            time.sleep(pause_s)
    record.write(result, folder)


def keep_elsewhere(result: dict[str, Any]) -> Path | None:
    """Writes a record to a new temporary folder; returns its path, or None if that fails too."""
    with contextlib.suppress(OSError):
        return record.write(result, Path(tempfile.mkdtemp(prefix="benchkit-record-")))
    return None


def save(result: dict[str, Any], folder: Path, group: AgentGroup) -> str:
    """Writes the record on agent 0.

    Returns:
        "" on success; else why the record cannot be written and where it is kept instead.
    """
    if not group.agents.first:
        return ""
    try:
        store(result, folder)
    except TypeError as error:  # a value that JSON lacks: the point's own fault
        result |= {"status": "error", "error": error_report(f"cannot be stored as JSON: {error}")}
        for name in ("cases", "warnings", "slowdown", "phases_s"):  # all that ranks contribute to
            result[name] = type(result[name])()
        return save(result, folder, group)
    except OSError as error:
        kept = keep_elsewhere(result)
        where = f"; it is in {kept}" if kept else ""
        return f"{folder}: record not written: {error.strerror or error}{where}"
    return ""


def new_record(point: Point, plan: Placement) -> dict[str, Any]:
    """Returns the record as it stands before any rank runs."""
    config = point.config
    plain = as_dict(config)
    return {
        "schema_version": record.SCHEMA_VERSION,
        "point_id": record.point_id(plain, plan.world_size),
        "suite": config.suite,
        "status": "running",
        "error": None,
        "config": plain,
        "overrides": point.overrides,
        "attempt": 1,
        "resumed_with": point.resumed_with,
        "world_size": plan.world_size,
        "threads_per_rank": plan.threads,
        "cores_per_rank": plan.cores_per_rank,
        "launched_by": topology.detect_launcher().by,
        "agents": plan.agents,
        "slowdown": {"asked": list(plan.slowdown), "mechanism": None, "measured": None},
        "warnings": environment.version_differences(plan.agents),
        "clock": None,
        "start_clock": None,
        "private_network": None,
        "started_at": now(),
        "finished_at": None,
        "phases_s": {},
        "environment": environment.describe(),
        "cases": [],
    }


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
