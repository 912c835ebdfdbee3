"""Makes parts of a report, each of which may fail without affecting the others."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from analysis.text import complain

Made = TypeVar("Made")


class Attempt(Protocol):
    """Makes a part of a report.

    Args:
        what: the name of the part, for the message where it fails.
        make: returns the part.
    """

    def __call__(self, what: str, make: Callable[[], Made]) -> Made | None: ...


def directly(what: str, make: Callable[[], Made]) -> Made | None:
    """Return what `make` returns, and let its exceptions pass."""
    return make()


def or_left_out(what: str, make: Callable[[], Made]) -> Made | None:
    """Return what `make` returns; where it fails, print a line on stderr and return None.

    Raises:
        OSError: where a file cannot be written, which is no fault of one part.
    """
    try:
        return make()
    except OSError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or [""]
        complain("analysis", f"left out {what}: {type(error).__name__}: {lines[0]}")
        return None
