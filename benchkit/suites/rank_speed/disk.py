"""A file in the output folder that a rank writes and reads; it has no name, so nothing is left."""

import os
import weakref
from pathlib import Path

from benchkit.api.case import Call
from benchkit.errors import InvalidResult

DROPPED = "kernel asked to drop its cache before each read"
SYNCED = "written through by fsync"


class Disk:
    """An unnamed file of one size.

    Args:
        folder: where it lies.
        name: of the file, until it is removed at once.
        content: what it holds.

    Raises:
        OSError: the folder cannot be written to, or is full.
    """

    def __init__(self, folder: Path, name: str, content: bytes) -> None:
        path = folder / name
        self.content = memoryview(content)
        self.found = memoryview(bytearray(len(content)))
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        weakref.finalize(self, os.close, self.file)  # ranks may stay for the next point
        path.unlink()
        self.write()

    def write(self) -> None:
        """Writes the file in place and waits until it is on the disk."""
        done = 0
        while done < len(self.content):
            done += os.pwrite(self.file, self.content[done:], done)
        os.fsync(self.file)

    def read(self) -> None:
        """Reads the whole file."""
        done = 0
        while done < len(self.found):
            count = os.preadv(self.file, [self.found[done:]], done)
            if not count:
                raise InvalidResult(f"the file ends after {done} of {len(self.found)} bytes")
            done += count

    def drop_cache(self) -> None:
        """Asks the kernel to forget the file's pages, which fsync has made clean."""
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)

    def check_write(self, call: Call) -> None:
        """Checks by a read what a call wrote over zeros; raises InvalidResult as `compare` does."""
        self.renew()
        call(lambda: os.pwrite(self.file, bytes(len(self.content)), 0))
        self.drop_cache()
        self.found[:] = bytes(len(self.found))
        self.read()
        self.compare()

    def check_read(self, call: Call) -> None:
        """Checks what a call read; raises InvalidResult as `compare` does."""
        self.renew()
        self.write()
        self.drop_cache()

        def prepare() -> None:
            self.found[:] = bytes(len(self.found))

        call(prepare)
        self.compare()

    def renew(self) -> None:
        """Moves the content by a byte."""
        self.content = memoryview(bytes(self.content[1:]) + bytes(self.content[:1]))

    def compare(self) -> None:
        """Raises InvalidResult with the first byte that differs between found and content."""
        if self.found != self.content:
            both = zip(self.found, self.content, strict=True)
            first = next(index for index, (found, wrote) in enumerate(both) if found != wrote)
            raise InvalidResult(f"byte {first}: {self.found[first]}, wrote {self.content[first]}")
