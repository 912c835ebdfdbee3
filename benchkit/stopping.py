"""How a command ends that is told to stop before it holds anything to keep, and after that."""

import os
import signal
import sys
import threading
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.01


def end_when_told() -> None:
    """Let signals end this process by exit code 128 + N, unless it was started to ignore them.

    A command that has work to keep installs its own handlers, which raise KeyboardInterrupt.
    """
    sys.unraisablehook = tell_again
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


def leave(number: int, frame: Any) -> NoReturn:
    sys.exit(128 + number)


def tell_again(unraisable: Any) -> None:
    """Send a signal again whose handler ran in a destructor, where Python drops its exception."""
    error = unraisable.exc_value
    if isinstance(error, SystemExit):
        number = int(error.code or 0) - 128
    elif isinstance(error, KeyboardInterrupt):
        number = getattr(error, "number", signal.SIGINT)
    else:
        sys.__unraisablehook__(unraisable)
        return
    timer = threading.Timer(AGAIN_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def end(code: int) -> NoReturn:
    """End with the exit code of a command whose work is done, whatever it is told meanwhile."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)
