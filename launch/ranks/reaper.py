"""What the fork server, which alone imports this, does beside forking ranks.

It is the parent of what ranks leave behind (Linux): a process that a rank has started in its own
session outlives the rank. It then becomes a child of the fork server, where
launch.ranks.fork_server finds it after the point. Ranks do not inherit this.

It removes the folder of its socket where the agent was killed, and it ends in one line.
"""

import atexit
import ctypes
import os
import shutil
import sys
import time
import warnings
from contextlib import suppress
from types import TracebackType

from launch.ranks.fork_server import FOLDER_VARIABLE, GONE_S

PR_SET_CHILD_SUBREAPER = 36
AGENT, SERVER = os.getppid(), os.getpid()


def clean_up(folder: str) -> None:
    """Remove the folder of an agent that has ended; one that lives may start another server."""
    deadline = time.monotonic() + GONE_S
    while os.getppid() == AGENT and time.monotonic() < deadline:
        time.sleep(0.01)
    if os.getpid() == SERVER and os.getppid() != AGENT:  # no process that a rank has forked
        shutil.rmtree(folder, ignore_errors=True)


def say_why(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in one line why the server ends; EOFError: an agent asks for a rank and fails or dies.

    The agent reports what it cannot start.
    """
    if issubclass(kind, OSError):
        print(f"benchkit: the fork server ends: {error}", file=sys.stderr)
    elif not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = say_why
with suppress(OSError):
    os.setsid()  # A launcher that kills its agent's process group lets the server clean up.
if folder := os.environ.pop(FOLDER_VARIABLE, ""):
    atexit.register(clean_up, folder)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # multiprocessing reaps such a child like any other, but warns about it.
    warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
