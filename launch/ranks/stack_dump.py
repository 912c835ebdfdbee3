"""Where a rank that hangs is: its Python stack, written by a signal handler that needs no cooperation."""

import faulthandler
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from launch.ranks.logs import end_of_log, shorten

STACK_SIGNAL = signal.SIGUSR1
WAITING_PLACES = ("torch/distributed/",)
"""Source files in which a rank that hangs is waiting for another one."""


@dataclass(frozen=True)
class Frame:
    """The innermost frame of a rank's main thread; `waiting` where that is inside a collective."""

    place: str
    waiting: bool
    stack: str


def install() -> None:
    """Makes STACK_SIGNAL write this process's stack to its standard error, which is the rank's log."""
    faulthandler.register(STACK_SIGNAL, all_threads=False)


def innermost_frame(log: Path) -> Frame:
    """Reads the last stack in a rank's log; an unknown place where there is none."""
    stack = end_of_log(log).rpartition("(most recent call first):\n")[2]
    found = re.search(r'File "(.+?)", line (\d+) in (\S+)', stack)
    if found is None:
        return Frame("an unknown place", waiting=False, stack="")
    source, line, function = found.groups()
    waiting = any(place in source for place in WAITING_PLACES)
    return Frame(f"{function} ({Path(source).name}:{line})", waiting, shorten(stack))
