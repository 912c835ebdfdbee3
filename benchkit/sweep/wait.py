"""Waits for submitted points: reports each as it ends, and records the end of killed jobs."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from benchkit.point.point import Point, Report
from benchkit.record import files
from benchkit.record.record import Record
from benchkit.record.statuses import FINAL
from benchkit.sweep.job_queue import Queue, State
from benchkit.sweep.slurm_job import note_end

POLL_INTERVAL_S = (0.5, 10.0)
"""Seconds between two looks at the queue: at first, and after a while."""
SETTLING_S = 15.0
"""Seconds after a job's end in which a shared file system may still come to show what it wrote."""
log = logging.getLogger("benchkit")
Signature = tuple[int, int]
"""Of a record file: its inode, and when it was written, in ns."""


def follow(
    points: Sequence[Sequence[Point]],
    queue: Queue,
    report: Report,
    stale: Mapping[Path, Signature] = MappingProxyType({}),
) -> Iterator[str]:
    """Yields the status of every point of every job as it ends.

    Args:
        points: of each job.
        queue: of the same jobs, in the same order.
        report: takes the record of each point that has ended.
        stale: by a point's folder, the record of an earlier attempt, which does not count now.
    """
    waiting = [(job, point) for job, group in enumerate(points) for point in group]
    total = len(waiting)
    ended_at: dict[int, float] = {}
    last_summary = ""
    pause_s = POLL_INTERVAL_S[0]
    try:
        while True:
            states = queue.states()
            for job, point in list(waiting):
                if found := conclusion(point, job, states[job], ended_at, queue, stale):
                    report(found)
                    waiting.remove((job, point))
                    pause_s = POLL_INTERVAL_S[0]
                    yield found.status
            if not waiting:
                return
            if (line := summary(states)) != last_summary:
                log.info("%s: %s", queue.name, line)
                last_summary = line
            time.sleep(pause_s)
            pause_s = min(POLL_INTERVAL_S[1], pause_s * 1.1)
    except (KeyboardInterrupt, GeneratorExit):
        # From here on the jobs' own records are all there is, and all that is needed.
        ended = total - len(waiting)
        log.warning("%d of %d points have ended; %s", ended, total, queue.interrupt())
        raise


def summary(states: Sequence[State]) -> str:
    """Counts jobs by state, with the reason of pending ones: "2 running, 3 pending (Priority)"."""
    counts: Counter[str] = Counter()
    for state in states:
        if state.status:
            continue
        is_explained = state.word == "PENDING" and state.detail
        reason = f" ({state.detail})" if is_explained else ""
        counts[state.word.lower() + reason] += 1
    return ", ".join(f"{count} {text}" for text, count in counts.items()) or "ended"


def conclusion(
    point: Point,
    job: int,
    state: State,
    ended_at: dict[int, float],
    queue: Queue,
    stale: Mapping[Path, Signature],
) -> Record | None:
    """Returns a point's record once nothing more will happen to it, else None.

    Args:
        point: of the job.
        job: its number in the queue.
        state: of the job.
        ended_at: by job, when its end was first seen, in seconds of the monotonic clock; updated.
        queue: of the job.
        stale: by a point's folder, the record of an earlier attempt.
    """
    found = fresh_record(point, stale)
    if found and found.status in FINAL:
        return found
    if not state.status:
        ended_at.pop(job, None)
        return None
    if found and found.status == state.status:
        return found
    if time.monotonic() - ended_at.setdefault(job, time.monotonic()) < SETTLING_S:
        return None
    known = "in this point" if found else "no record of this point"
    output = f"see {queue.output(job)}" if queue.output(job).exists() else ""
    cause = " ".join(filter(None, (f"{queue.name}:", state.word, state.detail)))
    message = "; ".join(filter(None, (cause, known, output)))
    return note_end(point, state.status, message, lambda: fresh_record(point, stale))


def fresh_record(point: Point, stale: Mapping[Path, Signature]) -> Record | None:
    """Returns the record of this attempt at a point; None if there is none yet."""
    signature = record_signature(point.folder)
    if signature and signature == stale.get(point.folder):
        return None
    return point.record()


def record_signature(folder: Path) -> Signature | None:
    """Returns what tells a record from the one that replaces it; None if there is no record."""
    with suppress(OSError):
        status = (folder / files.FILE_NAME).stat()
        return status.st_ino, status.st_mtime_ns
    return None
