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
"""By descriptor."""
SUBSTITUTES = {"µ": "u", "×": "x", "±": "+-", "─": "-", "…": "...", "–": "-", "├": "|", "└": "`"}
"""For letters that a locale lacks; other letters become escapes."""
ERRORS = "benchkit.substitutes"
"""How a stream encodes letters that its locale lacks, as codecs has it."""


def protect_streams(program: str = "") -> None:
    """Let this process print whatever becomes of its standard streams.

    What cannot be written is left out; the other stream says so once, except where the reader has
    left, as `head` does. Streams that something else has replaced stay as they are.

    Args:
        program: that says so; "" for none.
    """
    codecs.register_error(ERRORS, substituted)
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: else the next file, such as a record, would get this number
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
    sys.stdout = protected(sys.stdout, 1, program)
    sys.stderr = protected(sys.stderr, 2, program)


def protected(stream: TextIO | None, descriptor: int, program: str) -> TextIO:
    """Return the stream on a descriptor whose writes succeed, in place of Python's own.

    Args:
        stream: None where the descriptor was closed.
        program: as for `protect_streams`.
    """
    encoding, by_line = "utf-8", True
    if stream is not None:
        with suppress(OSError, ValueError):  # io.UnsupportedOperation is both
            stream.flush()
        if descriptor_of(stream) != descriptor:
            return stream
        encoding = stream.encoding
        by_line = bool(stream.line_buffering) or getattr(stream, "write_through", False)
    output = io.BufferedWriter(Output(descriptor, program))
    return io.TextIOWrapper(output, encoding, ERRORS, line_buffering=by_line)


def descriptor_of(stream: TextIO) -> int | None:
    """Return the descriptor that a stream writes to; None if to none."""
    with suppress(OSError, ValueError):
        return stream.fileno()
    return None


class Output(io.FileIO):
    """What a stream writes to: it takes all bytes, and drops those that its descriptor refuses."""

    def __init__(self, descriptor: int, program: str) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._program = program

    def write(self, content: Any, /) -> int:
        """Return how many bytes were written or dropped."""
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


def substituted(error: UnicodeError) -> tuple[str, int]:
    """Replace letters that an encoding lacks; codecs calls this."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    text = "".join(SUBSTITUTES.get(each, each) for each in letters)
    return text.encode("ascii", "backslashreplace").decode(), error.end
