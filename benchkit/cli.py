"""Runs the command line: Hydra in front, one point or a sweep behind, an exit code at the end."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchkit import ddlb, questions, stopping, study
from benchkit.config import command_line, compose, help, hydra_internals, messages
from benchkit.config.folders import config_folder, config_folders
from benchkit.errors import ConfigError, UnknownKey
from benchkit.record.naming import printable
from benchkit.sweep import resume, status
from launch import topology
from launch.agents.channel import SweepEnds
from launch.agents.meeting import JoinError
from launch.ranks import fork_server
from launch.signals import StopRequested, handle, to_stop_request

EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2
REFUSALS = (
    ConfigError,
    JoinError,
    topology.LaunchError,
    *hydra_internals.ERRORS,
    OSError,
    ValueError,
)
"""Exceptions that a wrong configuration raises in benchkit, in Hydra and in what Hydra reads."""


def main() -> int:
    """Run the points that the command line describes.

    Return 0 for success, 1 where a point failed or none was measured, 2 for a wrong configuration,
    and
    128 + N where signal N ended the run.
    """
    try:
        handle(stopping.SIGNALS, terminate)
        return run_command()
    except KeyboardInterrupt as error:
        return 128 + to_stop_request(error).number


def run_command() -> int:
    try:
        arguments = questions.command_first(sys.argv[1:])
        if not arguments:
            raise ConfigError(help.HOW_TO_START)
        compose.register()
        folders = config_folders(arguments)
        if text := questions.answer(arguments, folders):
            print(text)
            return EXIT_OK
        if run := COMMANDS.get(arguments[0] if arguments else ""):
            return run(arguments[1:])
        if study.is_study(arguments):
            studies = help.options_in(folders).get("study", [])
            return study.main(arguments, studies, check, exit_code)
        task = hydra_internals.run(folders[0], understood(arguments, folders))
    except REFUSALS as error:
        if "HYDRA_FULL_ERROR" in os.environ:
            raise
        fork_server.kill()
        complain(in_one_line(error, sys.argv[1:]))
        return EXIT_CONFIG
    except SweepEnds as error:
        complain(f"{error}; the sweep ends, what was measured is kept")
        return EXIT_FAILED
    return exit_code(task.statuses)


def selftest(arguments: list[str]) -> int:
    from benchkit.selftest import runs

    return runs.main(arguments)


def compare(arguments: list[str]) -> int:
    from benchkit.compare import session

    return session.main(arguments, check)


def import_config(arguments: list[str]) -> int:
    return ddlb.main(arguments, check)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare,
    "import-config": import_config,
    "list": questions.list_options,
    "selftest": selftest,
    "status": status.main,
}
"""What `python -m benchkit` runs instead of a sweep, by its first argument."""


def understood(arguments: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Return a command line as Hydra is given it; raise ConfigError where it is none."""
    if not questions.has_torch():
        raise ConfigError("torch is not installed; pip install 'benchkit[torch]', or a build of it")
    command_line.require_values(arguments)
    return command_line.understood(resume.parse(arguments), help.options_in(folders))


def check(arguments: Sequence[str]) -> hydra_internals.SweepTask:
    """Return what a command line would run, composed; start no process and write no file.

    Raise ConfigError, in the words of `main`, for one that `main` would refuse. It is UnknownKey
    where that is why.
    """
    try:
        compose.register()
        given = understood(arguments, config_folders(list(arguments)))
        settings = [*given, "hydra.sweeper.only_check=true"]
        return hydra_internals.run(config_folder(), settings)
    except REFUSALS as error:
        kind = UnknownKey if messages.NO_SUCH_KEY.search(str(error)) else ConfigError
        raise kind(in_one_line(error, arguments)) from None


def in_one_line(refusal: Exception, arguments: Sequence[str]) -> str:
    """Return one of REFUSALS as one line; a missing suite takes several, which list all suites."""
    if isinstance(refusal, ConfigError | JoinError | topology.LaunchError):
        return str(refusal)
    return messages.explain(refusal, arguments)


def complain(message: str) -> None:
    """Print a message to standard error; agents other than agent 0 add their index and host."""
    if hydra_internals.COMPLETED in os.environ:
        return  # a shell would print it into the line that is being typed
    me = topology.detect_launcher()
    agent = f"agent {me.index} on {topology.node_name()}: " if me.index else ""
    print(f"benchkit: {agent}{printable(message)}", file=sys.stderr)


def terminate(number: int, frame: Any) -> None:
    stopping.told.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else StopRequested(number)


def exit_code(statuses: list[str]) -> int:
    """Return 1 where a point failed, or where points ran and none was measured; else 0."""
    from benchkit.record.record import HARMLESS

    failed = any(status not in HARMLESS for status in statuses)
    return EXIT_FAILED if failed or (statuses and "ok" not in statuses) else EXIT_OK
