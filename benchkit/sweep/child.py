"""A sweep in a process of its own, which ends with the process that started it."""

import subprocess
import sys

STOP_S = 30.0
"""Seconds that a sweep may take to store its records when it is stopped."""
STARTER = (
    *(sys.executable, "-I", "-S", "-c"),
    "import ctypes, os, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])",
)
"""Starts what follows so that it is killed (9) when this process ends (1 is PR_SET_PDEATHSIG)."""


def stop(child: "subprocess.Popen[bytes]") -> None:
    """Stops a sweep and waits for its end; a second Ctrl-C while it stores its records kills it."""
    child.terminate()
    try:
        child.wait(STOP_S)
    except BaseException as error:
        child.kill()
        child.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
