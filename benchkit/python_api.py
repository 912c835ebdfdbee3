"""Run a sweep from Python: run the command line in a child process, and return the table."""

import datetime
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit import child
from benchkit.config.command_line import override
from benchkit.errors import ConfigError, SweepStopped
from benchkit.sweep import manifest
from benchkit.sweep.resume import settled_status

if TYPE_CHECKING:
    import pandas as pd

SWEEP_DIR = "hydra.sweep.dir"
ENDED, WRONG = (0, 1), 2
"""Exit codes of a sweep that ran all points, and of a wrong command line."""
WITH_PATH_OF_PARENT = (
    "import json, runpy, sys\n"
    "sys.path[:] = json.loads(sys.argv.pop(1))\n"
    "runpy.run_module('benchkit', run_name='__main__', alter_sys=True)"
)
"""Runs benchkit with the sys.path of this process: a notebook may have changed it."""


def run(
    suite: Any = None,
    *,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    progress: bool = False,
    arguments: Sequence[str] = (),
    **settings: Any,
) -> "pd.DataFrame":
    """Run a sweep as `python -m benchkit` does; points that fail are rows with their reason.

    Args:
        suite: name of the suite, or a list of several; None if `sweep` or `resume` sets it.
        out: folder of the sweep; by default outputs/TIME in the working directory.
        resume: folder of a sweep to resume, or to begin, instead of `out`.
        progress: whether to print the lines that the command line prints.
        arguments: further arguments of the command line, such as ["--config-dir", "my/conf"].
        **settings: values of keys, and options of groups. A list, a range or an array is swept
            over; a tuple is one value. `**{"measure.max_seconds": 1}` gives a key with a dot.

    Returns:
        The table of `analysis.load`, with the sweep's folder in `attrs["folder"]`.

    Raises:
        ConfigError: a setting is wrong; nothing was measured.
        SweepStopped: the sweep ended before its last point, for example by a full disk.
        KeyboardInterrupt: after Ctrl-C; the message says how to resume.
    """
    if out and resume:
        raise ConfigError("out, resume: allowed is one of them")
    folder = Path(resume or out or new_folder()).absolute()
    folder_arguments = ["--resume", str(folder)] if resume else [override(SWEEP_DIR, folder)]
    suite_setting = {"+suite": suite} if suite is not None else {}
    complete(
        folder, [*arguments, *folder_arguments, *overrides(suite_setting | settings)], progress
    )
    from analysis.table.frames import load

    table = load(folder)
    table.attrs["folder"] = str(folder)
    return table


def overrides(settings: Mapping[str, object]) -> list[str]:
    if SWEEP_DIR in settings:
        raise ConfigError(f"{SWEEP_DIR}: give the folder as out=…")
    return [override(key, value) for key, value in settings.items()]


def complete(folder: Path, arguments: Sequence[str], progress: bool) -> None:
    """Run a sweep to its end; raise as `run` does."""
    try:
        code, complaint = perform(arguments, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(describe_rest(folder)) from None
    if code == WRONG:
        raise ConfigError(complaint)
    if code not in ENDED or (code and num_left(folder) != 0):
        reason = complaint or f"the sweep ended with exit code {code}"
        raise SweepStopped(f"{reason}; {describe_rest(folder)}", folder)


def new_folder() -> Path:
    """Return a folder named as conf/config.yaml names those of sweeps."""
    return Path("outputs") / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S.%f}"


def perform(arguments: Sequence[str], progress: bool) -> tuple[int, str]:
    """Run the command line; return its exit code and its complaint."""
    search_path = json.dumps([str(folder) for folder in sys.path])
    command = [sys.executable, "-c", WITH_PATH_OF_PARENT, search_path, *arguments]
    lines = subprocess.PIPE if progress else subprocess.DEVNULL
    with tempfile.TemporaryFile() as errors:
        with child.child_process(child.ChildCommand(command), lines, errors) as sweep:
            for line in sweep.stdout or ():
                print(line.decode(errors="replace"), end="", flush=True)
            code = sweep.wait()
        errors.seek(0)
        return code, complaint_in(errors.read().decode(errors="replace"))


def complaint_in(errors: str) -> str:
    *_, last = re.split(r"^benchkit: ", errors, flags=re.MULTILINE)
    is_message = last != errors
    return last.strip() if is_message else "".join(errors.strip().splitlines()[-1:])


def num_left(folder: Path) -> int | None:
    """Return how many points are still to be measured; None before the sweep has begun."""
    try:
        points = manifest.read(folder).points
    except ConfigError:
        return None
    return sum(not settled_status(folder / point.folder) for point in points)


def describe_rest(folder: Path) -> str:
    remaining = num_left(folder)
    if remaining is None:
        return "no point was measured"
    points = "1 point is" if remaining == 1 else f"{remaining} points are"
    return f"{points} left; to go on: benchkit.run(resume={str(folder)!r})"
