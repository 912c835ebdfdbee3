"""Standard output and error that never end a measurement, nor change what it is found to be.

They may be closed or full, a terminal or a reader that has gone, or a locale that lacks letters.
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
    """Let this process print whatever becomes of its standard streams.

    What cannot be written is left out; the other stream says so once, in the name of `program`,
    except
    where the reader has left, as `head` does. Streams that something else has replaced stay.
    """
    codecs.register_error(ERRORS, substitute_letters)
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: else the next file, such as a record, would get this number
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
    sys.stdout = protect_stream(sys.stdout, 1, program)
    sys.stderr = protect_stream(sys.stderr, 2, program)


def protect_stream(stream: TextIO | None, descriptor: int, program: str) -> TextIO:
    """Return the stream on a descriptor whose writes succeed, in place of Python's own."""
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
    """Takes all bytes, and drops those that its descriptor refuses."""

    def __init__(self, descriptor: int, program: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._program = program

    def write(self, content: Any, /) -> int:
        try:
            while (count := super().write(content)) is None:  # full, and set not to block
                select.select([], [self], [])
            return count
        except OSError as error:
            if self._program and not isinstance(error, BrokenPipeError):
                self._say(error)
            self._program = ""
            return len(content)

    def _say(self, error: OSError) -> None:
        own = self.fileno()
        text = f"{self._program}: {NAMES[own]}: {error.strerror}; what it does not take is left out"
        with suppress(OSError):
            os.write(3 - own, f"{text}\n".encode())


def substitute_letters(error: UnicodeError) -> tuple[str, int]:
    """Replace letters that an encoding lacks; codecs calls this."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    text = "".join(SUBSTITUTES.get(each, each) for each in letters)
    return text.encode("ascii", "backslashreplace").decode(), error.end
