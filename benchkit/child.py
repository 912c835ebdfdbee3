"""Child processes that run benchkit, analysis or another interpreter's benchkit.

A child is killed when this process ends. It has a session of its own: Ctrl-C reaches only this
process, which then stops the child.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from launch import signals
from launch.module_path import path_options

BENCHKIT, ANALYSIS = "benchkit", "analysis"
ANALYSIS_PROGRAM = "benchkit-analysis"
STOP_S = 30.0
"""Seconds that a sweep may take to store its records when it is stopped."""
STARTER = (
    *(sys.executable, "-I", "-S", "-c"),
    "import ctypes, os, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])",
)
"""Starts a command that is killed (9) when this process ends (1 is PR_SET_PDEATHSIG)."""


@dataclass(frozen=True)
class ChildCommand:
    """A command; `folder` and `environment` default to those of this process."""

    command: Sequence[str]
    folder: str | Path | None = None
    environment: Mapping[str, str] | None = None


@dataclass(frozen=True)
class CapturedOutput:
    code: int
    out: str
    errors: str

    @property
    def complaint(self) -> str:
        return last_line(self.errors)


def analysis_program() -> str:
    """Return the command by which a user starts analysis: its installed program.

    `python -m analysis` would run a folder of that name in the working directory.
    """
    installed = Path(sys.executable).with_name(ANALYSIS_PROGRAM)
    if shutil.which(ANALYSIS_PROGRAM) == str(installed):
        return ANALYSIS_PROGRAM
    if installed.exists():
        return min(str(installed), os.path.relpath(installed), key=len)
    return "python -m analysis"


def module_command(name: str, arguments: Sequence[str]) -> ChildCommand:
    """Return `python -m NAME ARGUMENTS` of this interpreter and this code.

    A folder named analysis in the working directory would shadow the package. Therefore analysis
    runs in the parent folder of its package; PYTHONPATH leads to the user's modules of suites.
    """
    if name != ANALYSIS:
        return ChildCommand([sys.executable, *path_options(), "-m", name, *arguments])
    paths = (os.environ.get("PYTHONPATH"), os.getcwd())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    beside_package = Path(__file__).parents[1]
    return ChildCommand([sys.executable, "-m", name, *arguments], beside_package, environment)


@contextmanager
def child_process(
    program: ChildCommand,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a program and wait for its end; an exception in the context stops it."""
    with subprocess.Popen(
        [*STARTER, *program.command],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    ) as child:
        try:
            yield child
        except BaseException:
            for stream in filter(None, (child.stdout, child.stderr)):
                stream.close()  # the rest is not read: no write may block
            stop(child)
            raise


def stop(child: "subprocess.Popen[bytes]") -> None:
    """Stop a sweep and wait for its end; a second Ctrl-C while it stores its records kills it."""
    child.terminate()
    try:
        child.wait(STOP_S)
    except BaseException as error:
        child.kill()
        child.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def run(program: ChildCommand, log: IO[bytes] | None = None) -> int:
    """Run a program to its end and return its exit code; Ctrl-C ends this process.

    Args:
        log: file for its standard output and error.
    """
    with child_process(program, log, log) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            signals.ignore_signals()
            raise


def run_logged(log: IO[bytes], program: ChildCommand) -> tuple[int, str]:
    """Run a program as `run` does; return its exit code and the last line in its log."""
    code = run(program, log)
    log.seek(0)
    return code, last_line(log.read().decode(errors="replace").strip())


def capture_output(program: ChildCommand, limit_s: float) -> CapturedOutput:
    """Run a program to its end and return what it printed.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took longer than `limit_s`; it is killed.
    """
    with child_process(program, subprocess.PIPE, subprocess.PIPE) as child:
        try:
            out, errors = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            child.kill()
            raise
    texts = (content.decode(errors="backslashreplace") for content in (out, errors))
    return CapturedOutput(child.returncode, *texts)


def last_line(text: str) -> str:
    lines = text.splitlines()
    return lines[-1] if lines else ""
