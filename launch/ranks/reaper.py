"""Runs in the fork server only: becomes subreaper, removes its socket folder, exits with one line.

As subreaper (Linux) it adopts processes that outlive their rank in sessions of their own;
launch.ranks.fork_server kills them after the point. Ranks do not inherit the attribute. The folder
of the socket is removed here if the agent was killed.
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
    """Remove the folder if the agent has exited; a living agent may start another server."""
    deadline = time.monotonic() + GONE_S
    while os.getppid() == AGENT and time.monotonic() < deadline:
        time.sleep(0.01)
    if os.getpid() == SERVER and os.getppid() != AGENT:  # not in a process forked by a rank
        shutil.rmtree(folder, ignore_errors=True)


def print_exit_reason(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print the reason for the server's exit as one line.

    EOFError is silent: the requesting agent has failed, and reports it.
    """
    if issubclass(kind, OSError):
        print(f"benchkit: the fork server ends: {error}", file=sys.stderr)
    elif not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = print_exit_reason
with suppress(OSError):
    os.setsid()  # A launcher that kills its agent's process group lets the server clean up.
if folder := os.environ.pop(FOLDER_VARIABLE, ""):
    atexit.register(clean_up, folder)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # multiprocessing reaps such a child like any other, but warns about it.
    warnings.filterwarnings("ignore", "forkserver: waitpid returned unexpected pid")
