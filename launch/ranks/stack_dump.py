"""Locates a rank that hangs by its Python stack, which a signal handler writes to the rank's log.

The handler needs no cooperation from the code that hangs.
"""

import faulthandler
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from launch.ranks.logs import end_of_log, shorten

STACK_SIGNAL = signal.SIGUSR1
WAITING_PLACES = ("torch/distributed/", "torch/cuda/")
"""Source files in which a rank that hangs is waiting for another rank.

With NCCL that is `torch.cuda.synchronize`: a collective only enqueues a kernel.
"""


@dataclass(frozen=True)
class Frame:
    """The innermost frame of a rank's main thread.

    Attributes:
        place: function, file and line.
        waiting: whether the frame is inside a collective, or waits for a GPU.
        stack: the stack as text, shortened.
    """

    place: str
    waiting: bool
    stack: str


def install() -> None:
    """Makes STACK_SIGNAL write this process's stack to standard error, which is the rank's log."""
    faulthandler.register(STACK_SIGNAL, all_threads=False)


def innermost_frame(log: Path) -> Frame:
    """Reads the last stack in a rank's log; the place is unknown if there is none."""
    stack = end_of_log(log).rpartition("(most recent call first):\n")[2]
    found = re.search(r'File "(.+?)", line (\d+) in (\S+)', stack)
    if found is None:
        return Frame("an unknown place", waiting=False, stack="")
    source, line, function = found.groups()
    waiting = any(place in source for place in WAITING_PLACES)
    return Frame(f"{function} ({Path(source).name}:{line})", waiting, shorten(stack))
