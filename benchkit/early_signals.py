"""How a command ends that is told to stop before it holds anything to keep, and after that."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.01


received_signals: list[int] = []
"""The signals that this process was sent."""


def run_command_line(command: Callable[[], int]) -> NoReturn:
    """Run a command and end by its exit code, or by 128 + N where it has no handler for signal N.

    A command that has work to keep installs its own handlers, which raise KeyboardInterrupt.
    Signals that this process was started to ignore stay so.
    """
    sys.unraisablehook = resend_signal
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, exit_on_signal)
    try:
        code = command()
    except Exception:
        if not received_signals:
            raise
        # An extension module that was being imported raised ImportError.
        code = 128 + received_signals[0]
    for number in SIGNALS:  # its work is done
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def exit_on_signal(number: int, frame: Any) -> NoReturn:
    received_signals.append(number)
    sys.exit(128 + number)


def resend_signal(unraisable: Any) -> None:
    """Send a signal again whose handler ran in a destructor, where Python drops its exception."""
    error = unraisable.exc_value
    if isinstance(error, SystemExit):
        number = int(error.code or 0) - 128
    elif isinstance(error, KeyboardInterrupt):
        number = getattr(error, "number", signal.SIGINT)
    else:
        sys.__unraisablehook__(unraisable)
        return
    threading.Thread(target=send_to_main_thread, args=(number,), daemon=True).start()


def send_to_main_thread(number: int) -> None:
    """Send a signal to the main thread, whose wait it shall end.

    The wait goes on where it begins just after the signal has come; so one that ends this process
    is sent until it is received. A handler of the command would take a second one for another.
    """
    num_received = len(received_signals)
    main = threading.main_thread().ident or 0
    time.sleep(AGAIN_S)
    signal.pthread_kill(main, number)
    while signal.getsignal(number) is exit_on_signal and len(received_signals) == num_received:
        time.sleep(AGAIN_S)
        signal.pthread_kill(main, number)
