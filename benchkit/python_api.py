"""Run a sweep from Python: the command line in a process of its own, with a table at the end."""

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
"""Exit codes of a sweep that went through its points, and of a wrong command line."""
WITH_PATH_OF_PARENT = (
    "import json, runpy, sys\n"
    "sys.path[:] = json.loads(sys.argv.pop(1))\n"
    "runpy.run_module('benchkit', run_name='__main__', alter_sys=True)"
)
"""Finds modules where this process does: a notebook may have changed sys.path."""


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
        suite: name of the suite, or a list of several; None where `sweep` or `resume` says it.
        out: folder of the sweep; by default outputs/TIME in the working directory.
        resume: folder of a sweep to go on with, or to begin, in place of `out`.
        progress: whether to print the lines that the command line prints.
        arguments: further arguments of the command line, such as ["--config-dir", "my/conf"].
        **settings: values of keys, and options of groups. A list, a range or an array is swept
            over; a tuple is one value. `**{"measure.max_seconds": 1}` gives a key with a dot.

    Returns:
        The table of `analysis.load`, with the sweep's folder in `attrs["folder"]`.

    Raises:
        ConfigError: a setting is wrong; nothing was measured.
        SweepStopped: the sweep ended before all of its points had, as on a full disk.
        KeyboardInterrupt: by Ctrl-C; its message says how to go on.
    """
    if out and resume:
        raise ConfigError("out, resume: allowed is one of them")
    folder = Path(resume or out or new_folder()).absolute()
    place = ["--resume", str(folder)] if resume else [override(SWEEP_DIR, folder)]
    chosen = {"+suite": suite} if suite is not None else {}
    complete(folder, [*arguments, *place, *overrides(chosen | settings)], progress)
    from analysis.table.frames import load

    table = load(folder)
    table.attrs["folder"] = str(folder)
    return table


def overrides(settings: Mapping[str, object]) -> list[str]:
    if SWEEP_DIR in settings:
        raise ConfigError(f"{SWEEP_DIR}: give the folder as out=…")
    return [override(key, value) for key, value in settings.items()]


def complete(folder: Path, arguments: Sequence[str], progress: bool) -> None:
    """Run a sweep to the end of its last point; raise as `run` does."""
    try:
        code, complaint = perform(arguments, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(what_is_left(folder)) from None
    if code == WRONG:
        raise ConfigError(complaint)
    if code not in ENDED or (code and num_left(folder) != 0):
        reason = complaint or f"the sweep ended with exit code {code}"
        raise SweepStopped(f"{reason}; {what_is_left(folder)}", folder)


def new_folder() -> Path:
    """Return a folder named as conf/config.yaml names those of sweeps."""
    return Path("outputs") / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S.%f}"


def perform(arguments: Sequence[str], progress: bool) -> tuple[int, str]:
    """Run the command line; return its exit code and its complaint."""
    search_path = json.dumps([str(each) for each in sys.path])
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
    """Return how many points are still to be measured; None where the sweep has not begun."""
    try:
        points = manifest.read(folder).points
    except ConfigError:
        return None
    return sum(not settled_status(folder / point.folder) for point in points)


def what_is_left(folder: Path) -> str:
    left = num_left(folder)
    if left is None:
        return "no point was measured"
    points = "1 point is" if left == 1 else f"{left} points are"
    return f"{points} left; to go on: benchkit.run(resume={str(folder)!r})"
