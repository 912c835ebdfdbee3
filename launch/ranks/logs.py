"""What ranks say at length, cut to what an agent can hold and a reader wants."""

import os
from pathlib import Path

TEXT_CHARS = 1 << 16
"""The most that is kept of a message, a traceback or a stack."""
LOG_HALF_BYTES = 8 << 20
"""What is kept of the beginning and of the end of a long log."""
LAST_BYTES = 1 << 20
"""How much of a log is searched for the last stack."""


def log_file(folder: Path, rank: int) -> Path:
    """Where a rank's output goes."""
    return folder / f"rank_{rank}.log"


def shorten(text: str) -> str:
    """A text cut to TEXT_CHARS characters: its beginning, how much is left out, and its end."""
    left_out = len(text) - TEXT_CHARS
    if left_out <= 0:
        return text
    half = TEXT_CHARS // 2
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def shorten_log(path: Path) -> None:
    """Cuts a long log to its beginning and its end, with a line between that says so."""
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
    except OSError:  # the rank wrote none; or the disk is full, and the log stays as it is
        return


def end_of_log(path: Path) -> str:
    """The last LAST_BYTES of a log; "" where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            return file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return ""
