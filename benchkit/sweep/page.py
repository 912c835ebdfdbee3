"""Lets analysis write the page of a sweep that has ended, in a process of its own."""

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

PAGE = "analysis/report.html"
"""Below the sweep's folder; `python -m analysis --html` names it so."""
LONGEST_S = 1800.0
"""Seconds that analysis may take."""
log = logging.getLogger("benchkit")


def write_page(folder: Path) -> None:
    """Runs `python -m analysis FOLDER --html`; logs where the page is, or why there is none."""
    page = folder / PAGE
    with contextlib.suppress(OSError):
        page.unlink(missing_ok=True)  # that of an earlier part of a resumed sweep
    problem = problem_of_analysis(folder)
    if page.exists():
        log.info("page: %s", page)
    else:
        log.warning("report=html: %s", problem or "no page was written")


def problem_of_analysis(folder: Path) -> str:
    """Runs analysis and returns its last complaint; "" where it had none."""
    where, environment = beside_package()
    command = [sys.executable, "-m", "analysis", str(folder.absolute()), "--html"]
    try:
        done = subprocess.run(
            command,
            cwd=where,
            env=environment,
            timeout=LONGEST_S,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    complaints = done.stderr.splitlines()
    return complaints[-1] if complaints else ""


def beside_package() -> tuple[Path, dict[str, str]]:
    """Returns the working directory and the environment in which `python -m analysis` is ours.

    A folder named analysis where the user works would take the name. That place is still searched
    for modules of suites.
    """
    paths = (os.environ.get("PYTHONPATH"), os.getcwd())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return Path(__file__).parents[2], environment
