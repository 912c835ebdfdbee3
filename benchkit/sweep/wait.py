"""Waits for submitted points: tells of each as it ends, and writes down what a job that was killed could not."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchkit import record
from benchkit.point.point import Point, Report
from benchkit.sweep.schedulers import Queue, State
from benchkit.sweep.slurm_job import note_end

POLL_INTERVAL_S = (0.5, 10.0)
"""Seconds between two looks: at first, and after a while."""
SETTLING_S = 15.0
"""After a job's end, how long a shared file system may take to show what it wrote."""
log = logging.getLogger("benchkit")
Signature = tuple[int, int]
"""Of a record file: its inode and when it was written."""


def follow(
    points: Sequence[Sequence[Point]],
    queue: Queue,
    report: Report,
    stale: Mapping[Path, Signature] = MappingProxyType({}),
) -> Iterator[str]:
    """Yields the status of every point of every job as it ends.

    Args:
        points: of each job.
        report: takes the record of each point that has ended.
        stale: by a point's folder which record is of an earlier attempt, and no answer to this one.

    Where nobody waits any more the jobs' own records are all there is, and all that is needed.
    """
    waiting = [(job, point) for job, group in enumerate(points) for point in group]
    total, ended_at = len(waiting), dict[int, float]()
    said, pause_s = "", POLL_INTERVAL_S[0]
    try:
        while True:
            states = queue.states()
            for job, point in list(waiting):
                if found := conclusion(point, job, states[job], ended_at, queue, stale):
                    report(found)
                    waiting.remove((job, point))
                    pause_s = POLL_INTERVAL_S[0]
                    yield str(found["status"])
            if not waiting:
                return
            if (saying := summary(states)) != said:
                log.info("%s: %s", queue.name, saying)
                said = saying
            time.sleep(pause_s)
            pause_s = min(POLL_INTERVAL_S[1], pause_s * 1.1)
    except (KeyboardInterrupt, GeneratorExit):
        log.warning("%d of %d points have ended; %s", total - len(waiting), total, queue.interrupt())
        raise


def summary(states: Sequence[State]) -> str:
    """How many jobs are in which state, and why those wait that do: "2 running, 3 pending (Priority)"."""
    return ", ".join(
        f"{count} {word.lower()}" + (f" ({detail})" if detail and word == "PENDING" else "")
        for (word, detail), count in Counter(
            (state.word, state.detail if state.word == "PENDING" else "") for state in states if not state.status
        ).items()
    ) or "ended"  # fmt: skip


def conclusion(
    point: Point,
    job: int,
    state: State,
    ended_at: dict[int, float],
    queue: Queue,
    stale: Mapping[Path, Signature],
) -> dict[str, Any] | None:
    """A point's record once nothing more will happen to it, else None."""
    there = fresh_record(point, stale)
    if there and there["status"] in record.FINAL:
        return there
    if not state.status:
        ended_at.pop(job, None)
        return None
    if there and there["status"] == state.status:
        return there
    if time.monotonic() - ended_at.setdefault(job, time.monotonic()) < SETTLING_S:
        return None
    known = "in this point" if there else "no record of this point"
    output = f"see {queue.output(job)}" if queue.output(job).exists() else ""
    said = " ".join(part for part in (f"{queue.name}:", state.word, state.detail) if part)
    message = "; ".join(part for part in (said, known, output) if part)
    return note_end(point, state.status, message, lambda: fresh_record(point, stale))


def fresh_record(point: Point, stale: Mapping[Path, Signature]) -> dict[str, Any] | None:
    """The record of this attempt at a point; None where there is none yet."""
    signature = record_signature(point.folder)
    return None if signature and signature == stale.get(point.folder) else point.record()


def record_signature(folder: Path) -> Signature | None:
    """What tells a record from the one that replaces it; None where there is none."""
    with suppress(OSError):
        told = (folder / record.FILE_NAME).stat()
        return told.st_ino, told.st_mtime_ns
    return None
