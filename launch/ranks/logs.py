"""Logs and long texts of ranks, cut to a size that an agent can hold and a reader wants."""

import os
from pathlib import Path

TEXT_CHARS = 1 << 16
"""Characters that are kept of a message, a traceback or a stack."""
LOG_HALF_BYTES = 8 << 20
"""Bytes that are kept of the beginning of a long log, and of its end."""
LAST_BYTES = 1 << 20
"""Bytes at the end of a log that are searched for the last stack."""


def log_file(folder: Path, rank: int) -> Path:
    """Returns the path of the log that a rank writes."""
    return folder / f"rank_{rank}.log"


def shorten(text: str) -> str:
    """Cuts a text to TEXT_CHARS: its beginning, the number of characters left out, and its end."""
    left_out = len(text) - TEXT_CHARS
    if left_out <= 0:
        return text
    half = TEXT_CHARS // 2
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def shorten_log(path: Path) -> None:
    """Cuts a long log to its beginning and its end, with a line between them that says so."""
    try:
        left_out = path.stat().st_size - 2 * LOG_HALF_BYTES
        if left_out <= 0:
            return
        with path.open("r+b") as file:
            file.seek(-LOG_HALF_BYTES, os.SEEK_END)
            end = file.read()
            file.seek(LOG_HALF_BYTES)
            file.write(f"\n... {left_out} bytes left out ...\n".encode() + end)
            file.truncate()
    except OSError:  # There is no log, or the disk is full and the log stays as it is.
        return


def end_of_log(path: Path) -> str:
    """Returns the last LAST_BYTES of a log, or "" if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            return file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return ""
