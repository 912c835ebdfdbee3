"""Being told to stop, by a signal to this process or by another agent that was; handled as Ctrl-C is."""

import contextlib
import functools
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


class StopRequested(KeyboardInterrupt):
    """We were told to stop. `status`: the word for the point that it met; `relayed`: by another agent."""

    def __init__(self, number: int, status: str = "interrupted", why: str = "", relayed: bool = False) -> None:
        super().__init__(why or f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.status = status
        self.relayed = relayed


def to_stop_request(error: KeyboardInterrupt) -> StopRequested:
    """A KeyboardInterrupt of Python's own, as from Ctrl-C, in our words."""
    return error if isinstance(error, StopRequested) else StopRequested(signal.SIGINT, why="stopped by Ctrl-C")


def handle(numbers: Iterable[int], handler: Callable[[int, Any], Any]) -> None:
    """Installs a handler for signals, except for those that are ignored.

    `nohup` makes a process ignore SIGHUP, and a shell without job control SIGINT what it starts in
    the background: such a process must go on.
    """
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def ignore_signals() -> None:
    """From now on further signals change nothing: launchers send several, and the first is being written down."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Holds signals back while something must be done to its end.

    They are blocked, which processes started meanwhile inherit; and since the kernel may hand them to a thread of some
    library, which blocks nothing, the handlers do no more than note them.
    """
    noted: list[int] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    handlers = {number: handler for number in STOPPING if callable(handler := signal.getsignal(number))}
    if threading.current_thread() is not threading.main_thread():
        handlers.clear()  # it alone runs handlers
    for number in handlers:
        signal.signal(number, lambda number, frame: noted.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for caught in dict.fromkeys(noted):
            signal.raise_signal(caught)


def wait_for(things: Sequence[Any], timeout_s: float | None = None) -> list[Any]:
    """multiprocessing.connection.wait that every signal ends, so that its handler can raise.

    The kernel may hand a signal to a thread of some library (BLAS, TCPStore): Python notes it, and its main thread,
    which alone runs handlers, would sleep on.
    """
    if threading.current_thread() is not threading.main_thread():
        return connection.wait(things, timeout_s)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        rest_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = connection.wait([*things, arrivals()], rest_s)
        if arrivals() not in ready:
            return ready
        arrivals().recv(4096)


@functools.cache
def arrivals() -> socket.socket:
    """Becomes readable whenever a signal with a handler of Python's comes to this process."""
    here, there = socket.socketpair()
    there.setblocking(False)
    signal.set_wakeup_fd(there.detach(), warn_on_full_buffer=False)
    return here
