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
"""Exceptions by which the composition of a wrong command line fails, in Hydra or in files."""


def check(arguments: Sequence[str]) -> SweepTask:
    """Compose and check a command line; start no process and write no file.

    Raise ConfigError as `run` does.
    """
    task = SweepTask()
    run(arguments, task, "hydra.sweeper.only_check=true")
    return task


def run(arguments: Sequence[str], task: SweepTask, *settings: str) -> None:
    """Compose a command line, check its points, and run them unless `settings` say otherwise.

    Raise ConfigError for a wrong command line, in one line, or in several that list all suites; it
    is UnknownKey for a key that does not exist. Exceptions after all points are composed pass.
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
    """Return the arguments for Hydra; raise ConfigError for a wrong command line."""
    if not has_torch():
        raise ConfigError("torch is not installed; pip install 'benchkit[torch]', or a build of it")
    resume.require_text([os.getcwd()])  # it is written to manifests
    command_line.require_values(arguments)
    return command_line.normalize_arguments(resume.parse(arguments), help_pages.options_in(folders))


def has_torch() -> bool:
    return find_spec("torch") is not None


def refusal(error: Exception, arguments: Sequence[str]) -> ConfigError:
    """Convert one of REFUSALS to a ConfigError that explains it."""
    kind = UnknownKey if messages.NO_SUCH_KEY.search(str(error)) else ConfigError
    return kind(messages.explain(error, arguments))
