"""What a person sees while points run: a line per point that ends, and what happens now.

What happens now stands on the last line of a terminal. It changes when a rank enters a phase and
when a point ends; no timer runs beside the ranks. Without a terminal, a line now and then says how
long the sweep will take.
"""

import logging
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from benchkit.record.naming import printable
from benchkit.record.record import Record
from benchkit.sweep.point_lines import duration, point_line
from launch.ranks import notes

EVERY_S = 300.0
"""Seconds between lines on the time left, where there is no terminal."""
log = logging.getLogger("benchkit")


class StatusLine:
    """The last line of the terminal that standard error is; nothing is shown without one."""

    def __init__(self) -> None:
        """Loads rich only for a terminal."""
        self._console = None
        self._text = ""
        if sys.stderr.isatty():
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False, markup=False, emoji=False)

    @property
    def is_shown(self) -> bool:
        """Whether there is a terminal."""
        return self._console is not None

    def show(self, text: str) -> None:
        """Replaces the line, cut to the width of the terminal."""
        self.erase()
        self._text = text
        if self._console:
            self._console.print(text, end="\r", no_wrap=True, overflow="ellipsis", crop=True)

    def erase(self) -> None:
        """Makes room for other output; show_again() restores the line."""
        if self._console and self._text:
            from rich.control import Control
            from rich.segment import ControlType

            self._console.control(
                Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
            )

    def show_again(self) -> None:
        if self._text:
            self.show(self._text)

    def close(self) -> None:
        """Removes the line."""
        self.erase()
        self._text = ""


class ConsoleHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes a log line above the status line, if there is one."""

    status: StatusLine | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.status:
            self.status.erase()
        super().emit(record)
        if self.status:
            self.status.show_again()


class Listener(logging.Handler):
    """Takes the notes of ranks for a Progress."""

    def __init__(self, progress: "Progress") -> None:
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._progress.show(record.getMessage())
        except Exception:  # The caller is reading what a rank reports, and would blame the rank.
            self.handleError(record)


class Progress:
    """Counts the points of a sweep and prints a line for each as it ends.

    Args:
        total: points of the sweep; a point's line has a number only if there are several.
        done: those of them that are measured already.
        names: of the others, in the order in which they run in this process.
    """

    def __init__(self, total: int = 1, done: int = 0, names: Sequence[str] = ()) -> None:
        self.total = total
        self.done = done
        self._names = list(names)
        self._left = ""
        self._said_s = time.monotonic()
        self._status = StatusLine()
        self._listener = Listener(self)
        if self._status.is_shown:
            notes.log.addHandler(self._listener)
            notes.log.setLevel(logging.DEBUG)
            for handler in console_handlers():
                handler.status = self._status

    def report(self, record: Record) -> None:
        """Prints the line of a point that has ended."""
        self._names = self._names[1:]
        log.info(self.line(record))

    def line(self, record: Record) -> str:
        """Counts one more point and returns its line."""
        self.done += 1
        line = printable(point_line(record))
        if self.total <= 1:
            return line
        width = len(str(self.total))
        return f"[{self.done:>{width}}/{self.total}] {line}"

    def expect(self, num_left: int, seconds: float | None) -> None:
        """Takes how many points are left and how long they may take, and says so now and then."""
        if not num_left or seconds is None:
            self._left = ""
            return
        end = datetime.now() + timedelta(seconds=seconds)
        points = f"{num_left} of {self.total} points left"
        self._left = f"{points}, about {duration(seconds)}, until {end:%a %H:%M}"
        if not self._status.is_shown and time.monotonic() - self._said_s > EVERY_S:
            self._said_s = time.monotonic()
            log.info(self._left)

    def show(self, note: str) -> None:
        """Shows what the ranks of the current point do now."""
        number = f"[{self.done + 1}/{self.total}] " if self.total > 1 else ""
        name = self._names[0] if self._names else ""
        parts = [number + note, self._left, name]  # What does not fit on the line is cut off.
        self._status.show(printable("; ".join(filter(None, parts))))

    def stop(self) -> None:
        """Removes the status line."""
        notes.log.removeHandler(self._listener)
        self._status.close()
        for handler in console_handlers():
            handler.status = None


def console_handlers() -> list[ConsoleHandler]:
    return [each for each in logging.getLogger().handlers if isinstance(each, ConsoleHandler)]
