"""Notes of a rank to its agent while a job runs, such as the phase that it is in.

A note wakes the agent up, so none is sent while samples are taken.
"""

import json
import logging
import os
from contextlib import suppress
from multiprocessing.connection import Connection

from launch.framing import framed

KEY = "note"
log = logging.getLogger(__name__)
log.propagate = False  # They are for who listens here, not for logs.
_pipe: Connection | None = None


def send_through(pipe: Connection) -> None:
    """Lets notes of this process go through the pipe of its reports."""
    global _pipe
    _pipe = pipe


def send(text: str) -> None:
    """Sends a note; does nothing in a process that is no rank."""
    if _pipe:
        with suppress(OSError):  # The agent no longer reads the pipe.
            os.write(_pipe.fileno(), framed(json.dumps({KEY: text}).encode()))


def received(text: object) -> None:
    """Logs a note in the agent, where whoever shows it listens."""
    log.debug("%s", text)
