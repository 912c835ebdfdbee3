"""Runs the command line: Hydra in front, one point or a sweep behind, an exit code at the end."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchkit.config import command_line, compose, ddlb, help, hydra_internals, messages
from benchkit.config.folders import config_folder, config_folders
from benchkit.errors import ConfigError
from benchkit.study import command as study
from benchkit.study.plan import describe
from benchkit.study.request import PREFIX as STUDY
from benchkit.sweep import resume, status
from benchkit.version import __version__
from launch import topology
from launch.agents.member import SweepEnds
from launch.agents.rendezvous import JoinError
from launch.ranks import fork_server
from launch.signals import StopRequested, handle, to_stop_request

EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2
REFUSALS = (ConfigError, JoinError, *hydra_internals.ERRORS, OSError, ValueError)
"""Exceptions that a wrong configuration raises in benchkit, in Hydra and in what Hydra reads."""


def main() -> int:
    """Runs the points that the command line describes.

    Returns:
        The exit code: 0 for success, 1 where a point failed or none was measured, 2 for a wrong
        configuration, and 128 + N where signal N ended the run.
    """
    handle((signal.SIGTERM, signal.SIGHUP), terminate)
    try:
        compose.register()
        if run := COMMANDS.get(sys.argv[1] if len(sys.argv) > 1 else ""):
            return run(sys.argv[2:])
        folders = config_folders(sys.argv[1:])
        if text := asked_for(sys.argv[1:], folders):
            print(text)
            return EXIT_OK
        if study.is_study(sys.argv[1:]):
            studies = help.options_in(folders).get("study", [])
            return study.main(sys.argv[1:], studies, check, exit_code)
        statuses = hydra_internals.run(folders[0], understood(sys.argv[1:], folders))
    except BrokenPipeError:  # `--help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except REFUSALS as error:
        if "HYDRA_FULL_ERROR" in os.environ:
            raise
        fork_server.kill()
        complain(in_one_line(error, sys.argv[1:]))
        return EXIT_CONFIG
    except SweepEnds as error:
        complain(f"{error}; the sweep ends, what was measured is kept")
        return EXIT_FAILED
    except KeyboardInterrupt as error:
        return 128 + to_stop_request(error).number
    return exit_code(statuses)


def selftest(arguments: list[str]) -> int:
    """Runs `python -m benchkit selftest`; returns the exit code."""
    from benchkit.selftest import command

    return command.main(arguments)


def compare(arguments: list[str]) -> int:
    """Runs `python -m benchkit compare`; returns the exit code."""
    from benchkit.compare import session

    return session.main(arguments, check)


def import_config(arguments: list[str]) -> int:
    """Runs `python -m benchkit import-config`; returns the exit code."""
    return ddlb.main(arguments, check)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "compare": compare,
    "import-config": import_config,
    "selftest": selftest,
    "status": status.main,
}
"""What `python -m benchkit` runs instead of a sweep, by its first argument."""


def asked_for(arguments: Sequence[str], folders: Sequence[Path]) -> str:
    """Returns the text that a command line asks for instead of a sweep; "" if for none."""
    if "--version" in arguments:
        torch = f"torch {version('torch')}" if has_torch() else "no torch"
        return f"benchkit {__version__}, {torch}, Hydra {version('hydra-core')}"
    if arguments[:1] == ["list"]:
        return help.listed(help.options_in(folders))
    words = [each for each in arguments if each not in ("help", "--help", "-h")]
    if len(words) == len(arguments):
        return ""
    options = help.options_in(folders)
    suites = {path.stem: path for path in options.get("suite", ())}
    studies = {path.stem: path for path in options.get("study", ())}
    named = [each.removeprefix("+suite=").removeprefix("suite=") for each in words]
    chosen = [help.suite_help(suites[name]) for name in named if name in suites]
    named = [each.removeprefix(STUDY) for each in words]
    chosen += [describe(studies[name]) for name in named if name in studies]
    return "\n\n".join(chosen) or help.help_text(folders)


def understood(arguments: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Returns a command line as Hydra is given it.

    Raises:
        ConfigError: an argument is neither an override nor a flag, or torch is not installed.
    """
    if not has_torch():
        raise ConfigError("torch is not installed; pip install 'benchkit[torch]', or a build of it")
    return command_line.understood(resume.parse(arguments), help.options_in(folders))


def has_torch() -> bool:
    """Returns whether torch is installed; analysis works without it."""
    return find_spec("torch") is not None


def check(arguments: Sequence[str]) -> str:
    """Returns why `main` would refuse a command line, in its words; "" where the points would run.

    The check starts no process and writes no file.
    """
    try:
        compose.register()
        given = understood(arguments, config_folders(list(arguments)))
        settings = [*given, "hydra.sweeper.only_check=true"]
        hydra_internals.run(config_folder(), settings)
    except REFUSALS as error:
        return in_one_line(error, arguments)
    return ""


def in_one_line(refusal: Exception, arguments: Sequence[str]) -> str:
    """Returns one of REFUSALS as one line; a missing suite takes several, which list all suites."""
    if isinstance(refusal, ConfigError | JoinError):
        return str(refusal)
    return messages.explain(refusal, arguments)


def complain(message: str) -> None:
    """Prints a message to standard error; agents other than agent 0 add their index and host."""
    if hydra_internals.COMPLETED in os.environ:
        return  # a shell would print it into the line that is being typed
    me = topology.detect_launcher()
    agent = f"agent {me.index} on {topology.node_name()}: " if me.index else ""
    print(f"benchkit: {agent}{message}", file=sys.stderr)


def terminate(number: int, frame: Any) -> None:
    raise StopRequested(number)


def exit_code(statuses: list[str]) -> int:
    """Returns 1 where a point failed, or where points ran and none was measured; else 0."""
    from benchkit.record.statuses import HARMLESS

    failed = any(status not in HARMLESS for status in statuses)
    return EXIT_FAILED if failed or (statuses and "ok" not in statuses) else EXIT_OK
