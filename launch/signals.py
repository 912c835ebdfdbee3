"""Stop requests, by a signal to this process or to another agent; handled like Ctrl-C."""

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


class StopRequested(KeyboardInterrupt):
    """A request to stop by a signal; `relayed`: another agent received it and passed it on."""

    def __init__(
        self, number: int, status: str = "interrupted", why: str = "", relayed: bool = False
    ) -> None:
        super().__init__(why or f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.status = status
        self.relayed = relayed


def to_stop_request(error: KeyboardInterrupt) -> StopRequested:
    if isinstance(error, StopRequested):
        return error
    return StopRequested(signal.SIGINT, why="stopped by Ctrl-C")


def install_handlers(numbers: Iterable[int], handler: Callable[[int, Any], Any]) -> None:
    """Install a handler for signals, except for ignored ones.

    `nohup` ignores SIGHUP, and a shell without job control ignores SIGINT in the background; such
    a process must go on.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore further stop signals: launchers send several, and the first is being recorded."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Defer stop signals to the end of this context.

    The signals are blocked; processes started in the context inherit that. The kernel may still
    deliver them to a library's thread, which blocks none. Therefore the handlers only note them.
    """
    pending: list[int] = []
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    handlers: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # only this thread runs handlers
        for number in STOP_SIGNALS:
            if callable(handler := signal.getsignal(number)):
                handlers[number] = handler
    for number in handlers:
        signal.signal(number, lambda number, frame: pending.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        for caught in dict.fromkeys(pending):
            signal.raise_signal(caught)


def wait_readable(sources: Sequence[Any], timeout_s: float | None = None) -> list[Any]:
    """Wait like multiprocessing.connection.wait, and wake up to run signal handlers.

    The kernel may deliver a signal to a library's thread (BLAS, TCPStore). Python notes it there,
    but the main thread, which alone runs handlers, would stay asleep.
    """
    if threading.current_thread() is not threading.main_thread():
        return connection.wait(sources, timeout_s)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        rest_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = connection.wait([*sources, wakeup_fd()], rest_s)
        if wakeup_fd() not in ready:
            return ready
        os.read(wakeup_fd(), 4096)


@functools.cache
def wakeup_fd() -> int:
    """Return a descriptor that becomes readable when a signal with a Python handler arrives.

    It is process-wide because Python writes to one wake-up descriptor per process.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader
