"""Exit cleanly on a signal during start-up, before a handler that saves work is installed."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.01
received_signals: list[int] = []
"""Signals that this process has received, in order."""


def run_command_line(command: Callable[[], int]) -> NoReturn:
    """Run a command and exit with its code, or with 128 + N on a signal N without a handler.

    A command with results to save installs its own handlers, which raise KeyboardInterrupt. Signals
    that were ignored at the start of this process stay ignored.
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
        # The import of an extension module turned the handler's exception into ImportError.
        code = 128 + received_signals[0]
    for number in SIGNALS:  # results are saved
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def exit_on_signal(number: int, frame: Any) -> NoReturn:
    received_signals.append(number)
    sys.exit(128 + number)


def resend_signal(unraisable: Any) -> None:
    """Resend a signal whose handler ran in a destructor, where Python drops its exception."""
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
    """Send a signal to the main thread, to end its wait.

    A wait that begins just after the signal is not ended: a signal that ends this process is sent
    until it is received. A handler of the command would count a repeated one as another signal.
    """
    num_received = len(received_signals)
    main = threading.main_thread().ident or 0
    time.sleep(AGAIN_S)
    signal.pthread_kill(main, number)
    while signal.getsignal(number) is exit_on_signal and len(received_signals) == num_received:
        time.sleep(AGAIN_S)
        signal.pthread_kill(main, number)
