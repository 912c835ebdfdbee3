"""One run of a comparison: a sweep in a process of its own.

A run counts once its folder has RUN_FILE, which is written when all of its points have ended.
"""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from benchkit.compare.arms import Arm
from benchkit.compare.ended import RUN_FILE, Ended
from benchkit.compare.plan import Plan, Turn
from benchkit.errors import ConfigError
from benchkit.point.claim import claimed
from benchkit.point.recording import COMPARISON_VARIABLE
from benchkit.record import files
from benchkit.record.statuses import HARMLESS
from benchkit.sweep import manifest
from benchkit.sweep.child import STARTER, stop
from benchkit.sweep.resume import Resume, settled_status
from launch import signals
from launch.agents.host_lock import LOCK_VARIABLE
from launch.module_path import path_options

ENDED = (0, 1)
"""Exit codes of a sweep that went through its points; 1 where some failed."""


class RunFailed(Exception):
    """A run did not end as runs do; the message names it."""


class RunCutOff(RunFailed):
    """None of its points failed, but some did not begin or end, as where a disk is full."""


def set_aside(folder: Path) -> None:
    """Renames the folder of a run that does not count, if there is one.

    Raises:
        ConfigError: a process still works in it.
        OSError: it is a link, or the folder of all runs is, or cannot be made.
    """
    files.make_own(folder.parent)
    files.refuse_link(folder)
    if not folder.is_dir():
        return
    with claimed(folder):
        pass
    kept = files.make_own(folder.parent.parent / "unfinished")
    number = 1
    while (kept / f"{folder.name}_{number}").exists():
        number += 1
    for path in (folder, log_path(folder)):
        if path.exists():
            path.rename(kept / f"{folder.name}_{number}{path.suffix}")


def arguments_of(arm: Arm, common: Sequence[str], turn: Turn, folder: Path) -> list[str]:
    """Returns the command line of a run, without the program."""
    place = next(text for text in Resume(folder).as_overrides() if text.startswith("hydra.sweep."))
    return [*arm.arguments(common), f"seed={turn.seed}", place]


def perform(plan: Plan, turn: Turn, folder: Path, is_first: bool) -> tuple[int, str]:
    """Runs one run of this agent to its end.

    Args:
        plan: of the comparison.
        turn: to run.
        folder: of the run.
        is_first: whether this is agent 0, which keeps what the run prints.

    Returns:
        The exit code, and the last line that the run printed.

    Raises:
        StopRequested: after the run has ended.
    """
    with log_of(folder, is_first) as log:
        child = start(plan, turn, folder, log)
        try:
            code = child.wait()
        except KeyboardInterrupt:
            signals.ignore_signals()
            stop(child)
            raise
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
    return code, lines[-1] if lines else ""


def start(plan: Plan, turn: Turn, folder: Path, log: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Starts a run.

    Its session is its own, so that Ctrl-C reaches this process alone, which then stops the run. Its
    points do not wait for the host's lock, which this process holds for the whole comparison.
    """
    arm = plan.arms[turn.arm]
    own = {
        LOCK_VARIABLE: f"benchkit-compare-{plan.id}",
        COMPARISON_VARIABLE: msgspec.json.encode(turn.described(plan)).decode(),
    }
    python = [arm.python, *(path_options() if arm.is_here else ())]
    arguments = arguments_of(arm, plan.overrides, turn, folder)
    return subprocess.Popen(
        [*STARTER, *python, "-m", "benchkit", *arguments],
        cwd=arm.folder or (plan.started_in if os.path.isdir(plan.started_in) else None),
        env=arm.variables() | own,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def log_of(folder: Path, is_first: bool) -> IO[bytes]:
    """Opens what a run prints to; folders of agents on other hosts may not be here."""
    if not is_first:
        return tempfile.TemporaryFile()
    log_path(folder).unlink(missing_ok=True)
    return log_path(folder).open("xb+")  # which follows no link


def log_path(folder: Path) -> Path:
    """Returns the file with what a run printed."""
    return folder.with_suffix(".log")


def require_end(code: int, line: str, arm: Arm, folder: Path) -> None:
    """Raises an exception for the exit code of a run that did not go through its points.

    Raises:
        ConfigError: its command line is wrong.
        RunFailed: anything else.
    """
    if code == 2:
        raise ConfigError(f"{arm.text}: {line.removeprefix('benchkit: ')}")
    if code not in ENDED:
        raise RunFailed(f"{arm.text}: exit code {code}: {line} ({log_path(folder)})")


def count(arm: Arm, folder: Path, seconds: float, line: str) -> Ended:
    """Makes a run count.

    Args:
        arm: of the run.
        folder: of the run.
        seconds: that it took.
        line: the last one that it printed.

    Raises:
        ConfigError: no point was run, as without benchkit.
        RunFailed: some of its points have not ended.
        RunCutOff: as before, and none has failed.
    """
    try:
        points = manifest.read(folder).points
    except ConfigError:
        raise ConfigError(f"{arm.text}: no point was run: {line} ({log_path(folder)})") from None
    statuses = [settled_status(folder / point.folder) for point in points]
    if num_open := statuses.count(""):
        kind = RunCutOff if {*statuses} <= {"", *HARMLESS} else RunFailed
        raise kind(
            f"{arm.text}: {num_open} of {len(points)} points did not end ({log_path(folder)})"
        )
    ended = Ended(arm.text, len(points), seconds)
    files.write_whole(folder / RUN_FILE, msgspec.json.encode(ended))
    return ended
