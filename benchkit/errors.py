"""Exceptions; the status of a point follows from the type.

BenchkitError
├── ConfigError      the command line or a YAML is wrong        exit code 2, nothing runs
│   └── UnknownKey   the chosen suite lacks a key               as ConfigError
├── Unavailable      this machine or torch build lacks it       status "unavailable"
├── HostBusy         another run of this user holds a host      status "error"
├── SweepStopped     a sweep from Python stopped early          raised by benchkit.run
└── InvalidResult    a case computed something wrong            status "invalid"
"""

from pathlib import Path

OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")
OUT_OF_MEMORY_TEXTS = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Cannot allocate memory",
    "STATUS_ALLOC_FAILED",
)

Reason = str
"""Reason why a case cannot run or is wrong, one line; "" for none."""


class BenchkitError(Exception):
    """Base of all errors that a user sees as one line."""


class ConfigError(BenchkitError):
    """The configuration is wrong; the message names the key, its value and what is allowed."""


class UnknownKey(ConfigError):
    """A key that the chosen suite does not have."""


class Unavailable(BenchkitError):
    """A backend, device or operation does not exist here; the message says which and why."""


class HostBusy(BenchkitError):
    """Another run of the same user occupies a host for longer than this run waits for it."""


class SweepStopped(BenchkitError):
    """A sweep of `benchkit.run` ended before its last point; its records are kept.

    Attributes:
        folder: folder of the sweep.
    """

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class InvalidResult(BenchkitError):
    """A verified output differs from the expected one; the message names the first wrong index."""


def is_out_of_memory(type_name: str, message: str) -> bool:
    """Return whether an exception reports a lack of memory; torch has several types for that."""
    return type_name in OUT_OF_MEMORY or any(text in message for text in OUT_OF_MEMORY_TEXTS)


def oom_reason(error: Exception) -> str | None:
    """Return the first line of an exception that reports a lack of memory; None for any other."""
    name, text = type(error).__name__, str(error)
    return (text.split("\n")[0] or name) if is_out_of_memory(name, text) else None
