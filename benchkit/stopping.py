"""How a command ends that is told to stop before it holds anything to keep, and after that."""

import signal
import sys
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_when_told() -> None:
    """Let signals end this process by exit code 128 + N, unless it was started to ignore them.

    A command that has work to keep installs its own handlers.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


def leave(number: int, frame: Any) -> NoReturn:
    sys.exit(128 + number)


def end(code: int) -> NoReturn:
    """End with the exit code of a command whose work is done, whatever it is told meanwhile."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)
