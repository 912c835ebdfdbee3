"""Files of a sweep beside its points: log, link and report; and the command of on_end."""

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path

from benchkit import child
from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.record.record import HARMLESS
from benchkit.sweep import manifest, resume

LOG_FILE = "benchkit.log"
ON_END_S = 600.0
log = logging.getLogger("benchkit")


class LogFile(logging.FileHandler):
    """Drop lines that cannot be written, as on a full disk, and warn once."""

    _has_failed = False

    def _open(self) -> TextIOWrapper:
        """Append to the file, but through no link."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o666)
        return TextIOWrapper(open(descriptor, "ab"), self.encoding, self.errors)

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._has_failed:
            self._has_failed = True
            log.warning("%s: %s", self.baseFilename, sys.exc_info()[1])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


@contextlib.contextmanager
def log_to_folder(folder: Path) -> Iterator[None]:
    remember_latest(folder)
    lines: logging.Handler = logging.NullHandler()
    try:
        lines = LogFile(folder / LOG_FILE, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        log.warning("no log: %s", error)
    log.addHandler(lines)
    try:
        yield
    finally:
        log.removeHandler(lines)
        lines.close()


def remember_latest(folder: Path) -> None:
    """Link `latest` beside the folder to it, for `python -m analysis outputs/latest`."""
    link = folder.parent / "latest"
    fresh = folder.parent / f".latest-{os.getpid()}"
    try:
        fresh.symlink_to(folder.name)
        fresh.replace(link)
    except OSError:
        # Only a convenience: the file system has no links, or there is a folder of that name.
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def run_at_end(command: str, folder: Path, statuses: list[str], num_left: int) -> None:
    failed = sum(status not in HARMLESS for status in statuses)
    environment = os.environ | {
        "BENCHKIT_SWEEP": str(folder.absolute()),
        "BENCHKIT_FAILED": str(failed),
        "BENCHKIT_LEFT": str(num_left),
    }
    try:
        done = subprocess.run(["sh", "-c", command], env=environment, timeout=ON_END_S, check=False)
        problem = f"exit code {done.returncode}" if done.returncode else None
    except subprocess.TimeoutExpired:
        problem = f"killed after {ON_END_S:g} s"
    except OSError as error:
        problem = str(error)
    if problem:
        log.warning("on_end: %s", problem)  # the command may have secrets in it


def require_unused(folder: Path, subfolders: list[str]) -> None:
    if (folder / manifest.FILE_NAME).exists():
        points = manifest.read(folder).points
        num_open = sum(not resume.settled_status(folder / point.folder) for point in points)
        if num_open:
            raise ConfigError(
                f"hydra.sweep.dir={folder}: holds a sweep with {num_open} of {len(points)} points "
                f"to be measured; `python -m benchkit --resume {folder}` goes on with it, "
                "else choose another folder"
            )
        raise ConfigError(
            f"hydra.sweep.dir={folder}: holds a sweep already; allowed is a folder without"
        )
    paths = (folder / name / files.FILE_NAME for name in subfolders)
    if manifest.has_sweep(folder) or any(path.exists() for path in paths):
        raise ConfigError(
            f"hydra.sweep.dir={folder}: holds records already; allowed is a folder without"
        )


PAGE, VERDICT = "html", "verdict"
PAGE_FILE = "report/report.html"
"""Below the sweep's folder; `python -m analysis --html` names it so."""
OUT_OF_LINE = "out_of_line"
"""Status that a failed verdict adds to those of the points, for the exit code."""
LONGEST_S = 1800.0


def report_on(folder: Path, kind: str | None) -> list[str]:
    """Make the report that key `report` names; return the statuses that it adds."""
    if kind == PAGE:
        write_page(folder)
    return [OUT_OF_LINE] if kind == VERDICT and not print_verdict(folder) else []


def write_page(folder: Path) -> None:
    """Run `python -m analysis FOLDER --html`; log where the page is, or why there is none."""
    page = folder / PAGE_FILE
    with contextlib.suppress(OSError):
        if not page.parent.is_symlink():  # else analysis refuses to write there
            page.unlink(missing_ok=True)  # that of an earlier part of a resumed sweep
    try:
        complaint = run_analysis(str(folder.absolute()), "--html").complaint
    except (OSError, subprocess.TimeoutExpired) as error:
        complaint = str(error)
    if page.exists() and not page.parent.is_symlink():
        log.info("page: %s", page)
    else:
        log.warning("report=html: %s", complaint or "no page was written")


def print_verdict(folder: Path) -> bool:
    """Print the output of `python -m analysis accept FOLDER`; return whether all are alike."""
    try:
        done = run_analysis("accept", str(folder.absolute()))
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("report=verdict: %s", error)
        return False
    if done.out.strip():
        print(f"\n{done.out.strip()}", flush=True)
    else:
        log.warning("report=verdict: %s", done.complaint or "no verdict was printed")
    return done.code == 0


def run_analysis(*arguments: str) -> child.CapturedOutput:
    """Run `python -m analysis` to its end; raise as child.capture_output does."""
    program = child.module_command(child.ANALYSIS, arguments)
    environment = {**(program.environment or {}), "PYTHONIOENCODING": "utf-8"}
    return child.capture_output(replace(program, environment=environment), LONGEST_S)
