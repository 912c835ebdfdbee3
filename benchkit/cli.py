"""The command line: runs a command, or a sweep by Hydra, and returns an exit code."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchkit import child, ddlb, early_signals, info_commands, study
from benchkit.api.registry import installed_plugins
from benchkit.config import compose, help_pages, hydra_internals
from benchkit.config.folders import config_folders
from benchkit.errors import ConfigError
from benchkit.record.naming import escape_unprintable
from benchkit.sweep import check, status
from launch.agents.messages import JoinError, SweepEnds
from launch.host import node_name
from launch.launcher_env import LaunchError, detect_launcher
from launch.ranks import fork_server
from launch.signals import StopRequested, install_handlers, to_stop_request

EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2
log = logging.getLogger("benchkit")


def main() -> int:
    """Run the points that the command line describes.

    Return 0 for success, 1 where a point failed or none was measured, 2 for a wrong configuration,
    and 128 + N where signal N ended the run.
    """
    try:
        install_handlers(early_signals.SIGNALS, terminate)
        return run_command()
    except KeyboardInterrupt as error:
        return 128 + to_stop_request(error).number


def run_command() -> int:
    arguments = info_commands.command_first(sys.argv[1:])
    try:
        if not arguments:
            raise ConfigError(help_pages.HOW_TO_START)
        try:
            folders = config_folders(arguments)
            compose.register()
            warn_of_plugins(arguments)
            if text := info_commands.answer(arguments, folders):
                print(text)
                return EXIT_OK
            if answer := ANSWERS.get(arguments[0]):
                return answer(arguments[1:])
        except check.REFUSALS as error:
            raise check.refusal(error, arguments) from error
        if run := COMMANDS.get(arguments[0]):
            return run(arguments[1:])
        if study.is_study(arguments):
            return study.main(arguments, help_pages.options_in(folders).get("study", []))
        task = hydra_internals.SweepTask(print_table)
        check.run(arguments, task)
    except (ConfigError, JoinError, LaunchError, OSError) as error:
        if "HYDRA_FULL_ERROR" in os.environ:
            raise
        fork_server.kill_server()
        complain(str(error))
        return EXIT_CONFIG
    except SweepEnds as error:
        complain(f"{error}; the sweep ends, what was measured is kept")
        return EXIT_FAILED
    return status.exit_code(task.statuses)


def selftest(arguments: list[str]) -> int:
    from benchkit.selftest import runs

    return runs.main(arguments)


def compare(arguments: list[str]) -> int:
    from analysis.compare.pairs import PairJudge
    from benchkit.compare import session

    return session.main(arguments, PairJudge)


ANSWERS: dict[str, Callable[[list[str]], int]] = {
    "import-config": ddlb.main,
    "list": info_commands.list_options,
    "status": status.main,
}
"""Commands that only read files, by the first argument."""
COMMANDS: dict[str, Callable[[list[str]], int]] = {"compare": compare, "selftest": selftest}
"""Commands that measure something other than a sweep, by the first argument."""


def print_table(folder: Path) -> None:
    """Print the combined table of all records below the sweep's folder, or why there is none."""
    try:
        log_table(folder)
    except Exception as error:  # the records are complete without it
        command = f"{child.analysis_program()} {folder}"
        log.warning("no table: %r; %s makes it again", error, command)


def log_table(folder: Path) -> None:
    from analysis.records.harvest import harvest
    from analysis.screen.screen import screen_of
    from analysis.table.combine import combine
    from benchkit.selftest import floor

    loaded = harvest([folder])
    for line in loaded.remarks():
        log.warning(line)
    if problem := floor.problem():
        log.warning(problem)
    if loaded.rows:
        links = [f"Records: {folder}", f"Page: {child.analysis_program()} {folder} --html"]
        log.info("\n%s", screen_of(combine(loaded.rows), next_steps=links).text())


def complain(message: str) -> None:
    """Print a message to standard error; agents other than agent 0 add their index and host."""
    if hydra_internals.COMPLETED in os.environ:
        return  # a shell would print it into the line that is being typed
    context = detect_launcher()
    agent = f"agent {context.index} on {node_name()}: " if context.index else ""
    print(f"benchkit: {agent}{escape_unprintable(message)}", file=sys.stderr)


def warn_of_plugins(arguments: Sequence[str]) -> None:
    """Warn of suites that cannot be loaded; Hydra's error reports those in `arguments`."""
    if not detect_launcher().index:
        for name, reason in installed_plugins().left_out.items():
            if not any(name in word for word in arguments):
                complain(f"left out {reason}")


def terminate(number: int, frame: Any) -> None:
    early_signals.received_signals.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else StopRequested(number)
