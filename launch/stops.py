"""Being told to stop, by a signal to this process or by another agent that was; handled as Ctrl-C is."""

import contextlib
import signal
from collections.abc import Iterator

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


class Stopped(KeyboardInterrupt):
    """We were told to stop. `status`: the word for the point that it met; `relayed`: by another agent."""

    def __init__(self, number: int, status: str = "interrupted", why: str = "", relayed: bool = False) -> None:
        super().__init__(why or f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.status = status
        self.relayed = relayed


def as_stopped(error: KeyboardInterrupt) -> Stopped:
    """A KeyboardInterrupt of Python's own, as from Ctrl-C, in our words."""
    return error if isinstance(error, Stopped) else Stopped(signal.SIGINT, why="stopped by Ctrl-C")


def heed_no_more() -> None:
    """From now on further signals change nothing: launchers send several, and the first is being written down."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds signals back while something must be done to its end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
