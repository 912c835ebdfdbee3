"""Make stdout and stderr fail-safe: a write never raises.

They may be closed or full, their terminal or reader may be gone, or their encoding lack letters.
"""

import codecs
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, TextIO

NAMES = {1: "standard output", 2: "standard error"}
SUBSTITUTES = {"µ": "u", "×": "x", "±": "+-", "─": "-", "…": "...", "–": "-", "├": "|", "└": "`"}
ERRORS = "benchkit.substitutes"


def protect_streams(program: str = "") -> None:
    """Replace the standard streams of this process by fail-safe ones.

    Output that cannot be written is dropped. The other stream reports that once, in the name of
    `program`, unless the reader has left, as `head` does. Streams that are replaced already stay.
    """
    codecs.register_error(ERRORS, substitute_letters)
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: the next file, such as a record, would get this descriptor
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
    sys.stdout = protect_stream(sys.stdout, 1, program)
    sys.stderr = protect_stream(sys.stderr, 2, program)


def protect_stream(stream: TextIO | None, descriptor: int, program: str) -> TextIO:
    """Return a stream on a descriptor whose writes always succeed."""
    encoding, by_line = "utf-8", True
    if stream is not None:
        with suppress(OSError, ValueError):  # io.UnsupportedOperation is both
            stream.flush()
        if descriptor_of(stream) != descriptor:
            return stream
        encoding = stream.encoding
        by_line = bool(stream.line_buffering) or getattr(stream, "write_through", False)
    output = io.BufferedWriter(TolerantOutput(descriptor, program))
    return io.TextIOWrapper(output, encoding, ERRORS, line_buffering=by_line)


def descriptor_of(stream: TextIO) -> int | None:
    with suppress(OSError, ValueError):
        return stream.fileno()
    return None


class TolerantOutput(io.FileIO):
    """Accepts all bytes, and drops those that its descriptor refuses."""

    def __init__(self, descriptor: int, program: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._program = program

    def write(self, content: Any, /) -> int:
        try:
            while (count := super().write(content)) is None:  # full, and non-blocking
                select.select([], [self], [])
            return count
        except OSError as error:
            if self._program and not isinstance(error, BrokenPipeError):
                self._report(error)
            self._program = ""
            return len(content)

    def _report(self, error: OSError) -> None:
        descriptor = self.fileno()
        problem = f"{NAMES[descriptor]}: {error.strerror}; what it does not take is left out"
        with suppress(OSError):
            os.write(3 - descriptor, f"{self._program}: {problem}\n".encode())


def substitute_letters(error: UnicodeError) -> tuple[str, int]:
    """Replace letters that an encoding lacks; codecs calls this."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    text = "".join(SUBSTITUTES.get(letter, letter) for letter in letters)
    return text.encode("ascii", "backslashreplace").decode(), error.end
