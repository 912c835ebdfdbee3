"""Lets analysis report on a sweep that has ended, in a process of its own."""

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

PAGE, VERDICT = "html", "verdict"
"""Values of the key `report`."""
PAGE_FILE = "analysis/report.html"
"""Below the sweep's folder; `python -m analysis --html` names it so."""
OUT_OF_LINE = "out_of_line"
"""What a verdict adds to the statuses of the points, for the exit code."""
LONGEST_S = 1800.0
"""Seconds that analysis may take."""
log = logging.getLogger("benchkit")


def report_on(folder: Path, kind: str | None) -> list[str]:
    """Reports on a sweep as its key `report` asks; returns what that adds to its statuses."""
    if kind == PAGE:
        write_page(folder)
    return [OUT_OF_LINE] if kind == VERDICT and not print_verdict(folder) else []


def write_page(folder: Path) -> None:
    """Runs `python -m analysis FOLDER --html`; logs where the page is, or why there is none."""
    page = folder / PAGE_FILE
    with contextlib.suppress(OSError):
        if not page.parent.is_symlink():  # else analysis refuses to write there
            page.unlink(missing_ok=True)  # that of an earlier part of a resumed sweep
    try:
        complaint = last_line(run_analysis(str(folder.absolute()), "--html").stderr)
    except (OSError, subprocess.TimeoutExpired) as error:
        complaint = str(error)
    if page.exists() and not page.parent.is_symlink():
        log.info("page: %s", page)
    else:
        log.warning("report=html: %s", complaint or "no page was written")


def print_verdict(folder: Path) -> bool:
    """Prints what `python -m analysis accept FOLDER` says; returns whether all are alike."""
    try:
        done = run_analysis("accept", str(folder.absolute()))
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("report=verdict: %s", error)
        return False
    if done.stdout.strip():
        print(f"\n{done.stdout.strip()}", flush=True)
    else:
        log.warning("report=verdict: %s", last_line(done.stderr) or "no verdict was printed")
    return done.returncode == 0


def run_analysis(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs `python -m analysis` to its end.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took longer than LONGEST_S.
    """
    where, environment = beside_package()
    return subprocess.run(
        [sys.executable, "-m", "analysis", *arguments],
        cwd=where,
        env=environment | {"PYTHONIOENCODING": "utf-8"},
        timeout=LONGEST_S,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        check=False,
    )


def last_line(text: str) -> str:
    """Returns the last line of a text; "" where it has none."""
    lines = text.splitlines()
    return lines[-1] if lines else ""


def beside_package() -> tuple[Path, dict[str, str]]:
    """Returns the working directory and the environment in which `python -m analysis` is ours.

    A folder named analysis where the user works would take the name. That place is still searched
    for modules of suites.
    """
    paths = (os.environ.get("PYTHONPATH"), os.getcwd())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return Path(__file__).parents[2], environment
