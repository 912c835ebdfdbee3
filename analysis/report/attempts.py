"""Parts of a report that may fail without costing the others."""

import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

Made = TypeVar("Made")


class Attempt(Protocol):
    """How a part of a report is made. what: its name, for the message where it fails."""

    def __call__(self, what: str, make: Callable[[], Made]) -> Made | None: ...


def directly(what: str, make: Callable[[], Made]) -> Made | None:
    """What `make` returns; its exceptions pass."""
    return make()


def or_left_out(what: str, make: Callable[[], Made]) -> Made | None:
    """What `make` returns; None, and a line on stderr, where it fails.

    Raises OSError: a folder that cannot be written to is no fault of one part.
    """
    try:
        return make()
    except OSError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or [""]
        print(f"analysis: left out {what}: {type(error).__name__}: {lines[0]}", file=sys.stderr)
        return None
