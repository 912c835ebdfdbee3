"""Collect failed points, with the tail of the log of the causing rank."""

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis.page.figures import records_of
from analysis.report.naming import Namer
from analysis.table.combine import reasons
from benchkit.record.naming import UNPRINTABLE
from benchkit.record.record import HARMLESS, ErrorReport, Record
from launch import trust

MOST_KINDS = 40
"""Kinds of failures with logs; further ones only list names."""
MOST_LINES, MOST_LETTERS = 40, 6000
"""Lines and letters of the tail of a log or a traceback."""
MOST_REASON = 600
LOG_NAME = re.compile(r"rank_\d+\.log", re.ASCII)
CONTROL = re.compile(rf"\x1b\[[0-9;?]*[ -/]*[@-~]|(?![\n\t]){UNPRINTABLE.pattern}")
"""Terminal colours and unprintable characters."""


@dataclass
class FailureKind:
    """Points with the same status and reason.

    Attributes:
        status: status of the points.
        reason: full reason.
        names: names of all these points.
        where: rank and host of the first of them; "" if no rank is the cause.
        log_name: name of the log of that rank; "" without one.
        log: tail of the log.
        traceback: tail of the traceback.
        is_harmless: whether the points are known not to be measurable.
    """

    status: str
    reason: str
    names: list[str] = field(default_factory=list)
    where: str = ""
    log_name: str = ""
    log: str = ""
    traceback: str = ""
    is_harmless: bool = False


def failures_of(table: pd.DataFrame) -> list[FailureKind]:
    """Return all kinds of failures, the most frequent first, harmless ones last."""
    name = Namer(table)
    kind_by_key: dict[tuple[str, str], FailureKind] = {}
    failed = table[table["status"] != "ok"]
    for _, row in failed.assign(reason=reasons(failed)).iterrows():
        reason, status = row["reason"], str(row["status"])
        key = (status, reason.split("\n")[0])
        if key not in kind_by_key:
            text = truncate(reason, MOST_REASON)
            kind_by_key[key] = FailureKind(status, text, is_harmless=status in HARMLESS)
        kind_by_key[key].names.append(name(row))
    kinds = sorted(kind_by_key.values(), key=lambda kind: (kind.is_harmless, -len(kind.names)))
    add_logs(table[table["path"].isin(failed["path"])], kind_by_key, kinds[:MOST_KINDS])
    return kinds


def add_logs(
    table: pd.DataFrame, kind_by_key: dict[tuple[str, str], FailureKind], shown: list[FailureKind]
) -> None:
    """Add to each kind the log and the traceback of its first record."""
    for rows, record in records_of(table):
        error = record.error
        kind = kind_by_key.get((record.status, error.message.split("\n")[0])) if error else None
        if error is None or kind is None or kind not in shown or kind.where or kind.log:
            continue
        kind.where = format_location(error)
        kind.traceback = last_lines(error.traceback or "")
        kind.log_name, kind.log = log_of(record, Path(str(rows["path"].iloc[0])).parent)


def format_location(error: ErrorReport) -> str:
    """Return the known parts of "rank 1 on HOST, signal 11"."""
    rank = "" if error.rank is None else f"rank {error.rank}"
    host = f"on {error.host}" if error.host else ""
    signal = f"signal {error.signal}" if error.signal else ""
    return ", ".join(filter(None, (" ".join(filter(None, (rank, host))), signal)))


def log_of(record: Record, folder: Path) -> tuple[str, str]:
    """Return the name and the tail of the log that a record names; both "" without one.

    Only a regular log file in the record's folder is read, never through a link: records may come
    from untrusted sources, and pages are shared.
    """
    name = record.error.log if record.error and record.error.log else ""
    if not LOG_NAME.fullmatch(name):
        return "", ""
    try:
        with trust.open_folder(folder) as place, trust.open_file(folder / name, place) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                return "", ""
            file.seek(max(0, status.st_size - 4 * MOST_LETTERS))
            text = file.read().decode(errors="replace")
    except OSError:
        return "", ""
    return name, last_lines(text)


def last_lines(text: str) -> str:
    """Return the last lines of a text, without unprintable characters."""
    lines = CONTROL.sub("", text.replace("\r\n", "\n")).rstrip().split("\n")
    cut = "\n".join(lines[-MOST_LINES:])
    is_cut = len(lines) > MOST_LINES or len(cut) > MOST_LETTERS
    return f"…\n{cut[-MOST_LETTERS:]}" if is_cut else cut


def truncate(text: str, most: int) -> str:
    """Cut a text to a number of letters, and append "…"."""
    return text if len(text) <= most else f"{text[:most]}…"
