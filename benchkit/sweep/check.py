"""Compose a command line and check all of its points, before any of them is measured."""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchkit.config import command_line, compose, help_pages, hydra_internals, messages
from benchkit.config.folders import config_folders
from benchkit.config.hydra_internals import SweepTask
from benchkit.errors import ConfigError, UnknownKey
from benchkit.sweep import resume
from launch.launcher_env import LaunchError

REFUSALS = (*hydra_internals.ERRORS, LaunchError, OSError, ValueError)
"""What a wrong command line raises while it is composed: in Hydra, and in the files it names."""


def check(arguments: Sequence[str]) -> SweepTask:
    """Return what a command line would run, composed; start no process and write no file.

    Raise ConfigError as `run` does.
    """
    task = SweepTask()
    run(arguments, task, "hydra.sweeper.only_check=true")
    return task


def run(arguments: Sequence[str], task: SweepTask, *settings: str) -> None:
    """Compose a command line, check its points, and run them unless `settings` say otherwise.

    Raise ConfigError with one line for a command line that is wrong, or several lines that list all
    suites; it is UnknownKey where a key does not exist. An exception that comes once all points are
    composed is no fault of the command line, and passes.
    """
    try:
        compose.register()
        folders = config_folders(list(arguments))
        typed = expand(arguments, folders)
        hydra_internals.run(folders[0], [*typed, *settings], task)
    except REFUSALS as error:
        if task.configs:
            raise
        raise refusal(error, arguments) from error


def expand(arguments: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return a command line as Hydra is given it; raise ConfigError where it is none."""
    if not has_torch():
        raise ConfigError("torch is not installed; pip install 'benchkit[torch]', or a build of it")
    resume.require_text([os.getcwd()])  # manifests name it
    command_line.require_values(arguments)
    return command_line.normalize_arguments(resume.parse(arguments), help_pages.options_in(folders))


def has_torch() -> bool:
    return find_spec("torch") is not None


def refusal(error: Exception, arguments: Sequence[str]) -> ConfigError:
    """Return one of REFUSALS as the line that says what is wrong."""
    kind = UnknownKey if messages.NO_SUCH_KEY.search(str(error)) else ConfigError
    return kind(messages.explain(error, arguments))
