"""Length-prefixed messages over a byte stream: eight bytes of length, then the message.

Reads never block: a writer that stops in the middle of a message delays nothing else.
"""

import os
import select
import struct
from multiprocessing.connection import Connection

HEAD = struct.Struct("!Q")
PIECE_BYTES = 1 << 20
REPORT_BYTES = 1 << 30
"""More than the result of any rank."""


def add_length(message: bytes) -> bytes:
    """Prefix a message with its length."""
    return HEAD.pack(len(message)) + message


class MessageReader:
    """Assembles messages from a non-blocking connection.

    It never reads beyond the current message: the next one stays in the kernel, where select sees
    it.
    """

    def __init__(self, source: Connection) -> None:
        self._source = source
        self._buffer = bytearray()
        self._length: int | None = None  # None: the eight bytes of the length are not complete

    @property
    def is_partial(self) -> bool:
        """Whether only a part of a message has arrived."""
        return bool(self._buffer) or self._length is not None

    def read_message(self, limit: int) -> bytes | None:
        """Read the bytes that have arrived; return the message, or None while it is incomplete.

        Raises:
            EOFError: the stream has ended.
            ValueError: a message is longer than `limit`.
            OSError: the kernel cannot read from the connection.
        """
        while True:
            missing = (HEAD.size if self._length is None else self._length) - len(self._buffer)
            if missing:
                try:
                    piece = os.read(self._source.fileno(), min(missing, PIECE_BYTES))
                except BlockingIOError:
                    return None
                if not piece:
                    raise EOFError
                self._buffer += piece
            elif self._length is None:
                (self._length,) = HEAD.unpack(self._buffer)
                self._buffer.clear()
                if self._length > limit:
                    raise ValueError(f"a message of {self._length} bytes; allowed are {limit}")
            else:
                message = bytes(self._buffer)
                self._buffer.clear()
                self._length = None
                return message


def is_writable(stream: Connection, timeout_s: float) -> bool:
    """Wait until a stream accepts bytes or its reader is lost; return False on a timeout."""
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLOUT)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
