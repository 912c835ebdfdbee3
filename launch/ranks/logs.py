"""Logs and stacks of ranks, truncated to a size that fits in an agent's memory."""

import faulthandler
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

TEXT_CHARS = 1 << 16
LOG_HALF_BYTES = 8 << 20
"""Bytes that are kept of the beginning of a long log, and of its end."""
LAST_BYTES = 1 << 20


def log_file(folder: Path, rank: int) -> Path:
    return folder / f"rank_{rank}.log"


def shorten(text: str) -> str:
    left_out = len(text) - TEXT_CHARS
    if left_out <= 0:
        return text
    half = TEXT_CHARS // 2
    return f"{text[:half]}\n... {left_out} characters left out ...\n{text[-half:]}"


def shorten_log(path: Path) -> None:
    try:
        left_out = path.stat().st_size - 2 * LOG_HALF_BYTES
        if left_out <= 0:
            return
        with path.open("r+b") as file:
            file.seek(-LOG_HALF_BYTES, os.SEEK_END)
            tail = file.read()
            file.seek(LOG_HALF_BYTES)
            file.write(f"\n... {left_out} bytes left out ...\n".encode() + tail)
            file.truncate()
    except OSError:  # There is no log, or the disk is full and the log stays as it is.
        return


def read_log_tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            return file.read(LAST_BYTES).decode(errors="replace")
    except OSError:
        return ""


UNCAUGHT = re.compile(r"^  what\(\):  (.*)", re.MULTILINE)
"""Line of the C++ runtime about an uncaught exception."""


def uncaught_what(log: Path) -> str:
    messages = UNCAUGHT.findall(read_log_tail(log))
    return messages[-1] if messages else ""


STACK_SIGNAL = signal.SIGUSR1
WAITING_PLACES = ("torch/distributed/", "torch/cuda/")
"""Source files in which a hung rank waits for another rank.

With NCCL it waits in `torch.cuda.synchronize`: a collective only enqueues a kernel.
"""


@dataclass(frozen=True)
class Frame:
    """The innermost frame of a rank's main thread; `is_waiting`: in a collective, or for a GPU."""

    location: str
    is_waiting: bool
    stack: str


def install_stack_dumper() -> None:
    """Make STACK_SIGNAL write this process's stack to standard error, which is the rank's log."""
    faulthandler.register(STACK_SIGNAL, all_threads=False)


def innermost_frame(log: Path) -> Frame:
    """Read the last stack in a rank's log; without one the location is unknown.

    Other threads write to the log meanwhile, as NCCL's flight recorder does when it dumps.
    """
    last = read_log_tail(log).rpartition("(most recent call first):\n")[2]
    frames = list(re.finditer(r'^  File "(.+)", line (\d+) in (\S+)\n', last, re.MULTILINE))
    if not frames:
        return Frame("an unknown place", is_waiting=False, stack="")
    source, line, function = frames[0].groups()
    stack = "".join(frame.group() for frame in frames)
    waiting = any(place in source for place in WAITING_PLACES)
    return Frame(f"{function} ({Path(source).name}:{line})", waiting, shorten(stack))
