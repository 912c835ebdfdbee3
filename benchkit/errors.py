"""What can go wrong, as types; the status of a point follows from the type.

BenchkitError
├── ConfigError      the command line or a YAML is wrong        exit code 2, nothing runs
├── Unavailable      this machine or torch build cannot do it   status "unavailable"
└── InvalidResult    a case computed something wrong            status "invalid"
"""

import signal


class BenchkitError(Exception):
    """Base of all errors that a user is shown as one line."""


class ConfigError(BenchkitError):
    """Names the key, what was given and what is allowed."""


class Unavailable(BenchkitError):
    """The backend, device or operation does not exist here; says which and why."""


class InvalidResult(BenchkitError):
    """A verified output differs from the expected one; says the first wrong index."""


class Terminated(KeyboardInterrupt):
    """A signal told us to stop, which is no error; handled as Ctrl-C is. `status`: how the point it met ended."""

    def __init__(self, number: int, status: str = "interrupted", why: str = "") -> None:
        super().__init__(why or f"stopped by {signal.Signals(number).name}")
        self.number = number
        self.status = status
