"""Runs the steps of a study as child processes, and remembers which have ended."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchkit.errors import ConfigError
from benchkit.record import files
from benchkit.study.plan import ANALYSIS, BENCHKIT, Step
from benchkit.sweep import manifest, resume
from benchkit.sweep.child import STARTER, stop
from benchkit.sweep.report import beside_package
from benchkit.sweep.resume import Resume
from launch import signals
from launch.module_path import path_options

FILE_NAME = "study.json"


@dataclass
class Progress:
    """How far a study is.

    Attributes:
        study: its name.
        parameters: their values.
        finished: the names of the steps that have ended.
        config_dir: of --config-dir; "" without.
    """

    study: str
    parameters: dict[str, str]
    finished: list[str] = field(default_factory=list)
    config_dir: str = ""

    def write(self, folder: Path) -> None:
        content = msgspec.json.encode(self)
        files.write_whole(folder / FILE_NAME, msgspec.json.format(content, indent=2))


def read_progress(folder: Path) -> Progress:
    """Reads how far the study in a folder is.

    Raises:
        ConfigError: the folder holds no study, or one that is not readable.
    """
    path = folder / FILE_NAME
    if not path.exists():
        raise ConfigError(f"--resume {folder}: holds no study; allowed is the folder of one")
    try:
        manifest.require_ours(path)
        return files.read_json(path, Progress)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: not a study's file ({error})") from None


def run_step(
    step: Step, values: Mapping[str, str], folder: Path, flags: Sequence[str], asked: Resume
) -> int:
    """Runs a step to its end.

    Args:
        step: of a study.
        values: of the parameters.
        folder: of the step; a sweep that it holds already is continued.
        flags: of the study's command line, for sweeps.
        asked: what --retry and --force ask for.

    Returns:
        The exit code of the process.

    Raises:
        OSError: the folder is a link.
    """
    arguments = step.arguments(values)
    if step.module == BENCHKIT:
        files.refuse_link(folder)
        resumed = Resume(folder, asked.retry, asked.force)
        arguments = [*flags, *arguments, *in_folder(resumed)]
    return run_module(step.module, arguments)


def run_module(module: str, arguments: Sequence[str]) -> int:
    """Runs one of our modules in a process that ends with this one; returns its exit code.

    Its session is its own, so that Ctrl-C reaches this process alone, which then stops it.
    """
    options: list[str] = []
    where: Path | None = None
    environment = dict(os.environ)
    if module == ANALYSIS:
        where, environment = beside_package()
    else:
        options = path_options()
    child = subprocess.Popen(
        [*STARTER, sys.executable, *options, "-m", module, *arguments],
        cwd=where,
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return child.wait()
    except KeyboardInterrupt:
        signals.ignore_signals()
        stop(child)
        raise


def in_folder(asked: Resume) -> list[str]:
    """Returns what makes a sweep write into a folder, or continue there."""
    if not (asked.folder / manifest.FILE_NAME).exists():
        return [each for each in asked.as_overrides() if each.startswith("hydra.sweep.dir=")]
    flags = ["--resume", str(asked.folder), "--retry", asked.retry]
    return [*flags, "--force"] if asked.force else flags


def statuses_of(step: Step, folder: Path) -> list[str]:
    """Returns how the points of a sweep's step have ended, "" for those that are to be measured."""
    if step.module == ANALYSIS or not (folder / manifest.FILE_NAME).exists():
        return []
    points = manifest.read(folder).points
    return [resume.settled_status(folder / point.folder) for point in points]


def has_ended(step: Step, folder: Path, code: int) -> bool:
    """Returns whether the steps behind a step may run: failed points do not keep them from it."""
    if step.module == ANALYSIS:
        return code == 0
    statuses = statuses_of(step, folder)
    return code in (0, 1) and bool(statuses) and all(statuses)
