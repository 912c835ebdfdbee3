"""What can go wrong, as types; the status of a point follows from the type.

BenchkitError
├── ConfigError      the command line or a YAML is wrong        exit code 2, nothing runs
├── Unavailable      this machine or torch build cannot do it   status "unavailable"
├── HostBusy         another run of ours holds a host           status "error"
└── InvalidResult    a case computed something wrong            status "invalid"
"""

OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")
OUT_OF_MEMORY_TEXTS = (
    "can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory", "STATUS_ALLOC_FAILED",
)  # fmt: skip


class BenchkitError(Exception):
    """Base of all errors that a user is shown as one line."""


class ConfigError(BenchkitError):
    """Names the key, what was given and what is allowed."""


class Unavailable(BenchkitError):
    """The backend, device or operation does not exist here; says which and why."""


class HostBusy(BenchkitError):
    """Another run of the same user measures on a host for longer than this one waits; names it."""


class InvalidResult(BenchkitError):
    """A verified output differs from the expected one; says the first wrong index."""


def is_out_of_memory(type_name: str, message: str) -> bool:
    """Whether an exception says that memory was short: torch has no one type for it."""
    return type_name in OUT_OF_MEMORY or any(text in message for text in OUT_OF_MEMORY_TEXTS)


def starved(error: Exception) -> str:
    """What an exception says, in a line, where it says that memory was short; else ""."""
    name, text = type(error).__name__, str(error)
    return (text.split("\n")[0] or name) if is_out_of_memory(name, text) else ""
