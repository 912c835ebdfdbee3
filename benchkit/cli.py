"""Runs the command line: Hydra in front, one point or a sweep behind, an exit code at the end."""

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from benchkit.config import compose, messages
from benchkit.errors import ConfigError
from benchkit.sweep import resume, sweeper
from launch import topology
from launch.agents.member import SweepEnds
from launch.agents.rendezvous import JoinError
from launch.signals import StopRequested, handle, to_stop_request

EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2
REFUSALS = (
    ConfigError,
    JoinError,
    HydraException,
    OmegaConfBaseException,
    YAMLError,
    OSError,
    ValueError,
)
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
        if {"--help", "-h"} & set(sys.argv[1:]):
            print(messages.help_text(config_folders(sys.argv[1:])))
            return EXIT_OK
        run_hydra(multirun_first(resume.parse(sys.argv[1:])))
    except BrokenPipeError:  # `--help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except REFUSALS as error:
        if "HYDRA_FULL_ERROR" in os.environ:
            raise
        complain(in_one_line(error))
        return EXIT_CONFIG
    except SweepEnds as error:
        complain(f"{error}; the sweep ends, what was measured is kept")
        return EXIT_FAILED
    except KeyboardInterrupt as error:
        return 128 + to_stop_request(error).number
    return exit_code(sweeper.STATUSES)


def check(arguments: Sequence[str]) -> str:
    """Returns why `main` would refuse a command line, in its words; "" where the points would run.

    The check starts no process and writes no file.
    """
    try:
        compose.register()
        run_hydra([*multirun_first(resume.parse(arguments)), "hydra.sweeper.only_check=true"])
    except REFUSALS as error:
        return in_one_line(error)
    return ""


def in_one_line(refusal: Exception) -> str:
    """Returns one of REFUSALS as one line; a missing suite takes several, which list all suites."""
    if isinstance(refusal, ConfigError | JoinError):
        return str(refusal)
    return messages.explain(refusal)


def complain(message: str) -> None:
    """Prints a message to standard error; agents other than agent 0 add their index and host."""
    me = topology.detect_launcher()
    agent = f"agent {me.index} on {topology.node_name()}: " if me.index else ""
    print(f"benchkit: {agent}{message}", file=sys.stderr)


def multirun_first(arguments: list[str]) -> list[str]:
    """Moves -m and --multirun to the front.

    Hydra 1.3 accepts no override after a flag (hydra #3053, fixed in 1.4).
    """
    flags = [argument for argument in arguments if argument in ("-m", "--multirun")]
    return flags[:1] + [argument for argument in arguments if argument not in flags]


def run_hydra(arguments: list[str]) -> None:
    """Runs all points; raises one of REFUSALS where the configuration is wrong."""
    folder = str(config_folder())
    start = hydra.main(config_path=folder, config_name="config", version_base="1.3")(run_job)
    try:
        with hydra_sees(arguments):
            start()
    except ConfigCompositionException:
        per_point = set_per_point(arguments)
        if per_point == arguments:
            raise
        with hydra_sees(per_point):
            start()


@contextlib.contextmanager
def hydra_sees(arguments: list[str]) -> Iterator[None]:
    """Gives Hydra these arguments, and makes it raise its errors instead of exiting."""
    typed = sys.argv[1:]
    full_error = os.environ.get("HYDRA_FULL_ERROR")
    sys.argv[1:] = arguments
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv[1:] = typed
        del os.environ["HYDRA_FULL_ERROR"]
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error


def set_per_point(arguments: list[str]) -> list[str]:
    """Turns values of suites' own keys into sweeps of one value, unless one suite is chosen.

    Hydra applies what does not vary before the sweep chooses a suite, when no such key exists yet.
    """
    if any(argument.startswith("+suite=") and "," not in argument for argument in arguments):
        return arguments
    suite_keys = messages.keys_of_suites()
    return [as_choice(argument, suite_keys) for argument in arguments]


def as_choice(argument: str, suite_keys: set[str]) -> str:
    """Returns an override of one of `suite_keys` as a sweep of one value; others as they are."""
    key, _, value = argument.partition("=")
    if key.split(".")[0] in suite_keys and value and not varies(argument):
        return f"{key}=choice({value})"
    return argument


def varies(argument: str) -> bool:
    """Returns whether an override is a sweep already, or is not understood by Hydra."""
    try:
        return bool(OverridesParser.create().parse_override(argument).is_sweep_override())
    except HydraException:
        return True


def config_folder() -> Path:
    """Returns conf/ inside the installed package, or beside the package in a checkout."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def config_folders(arguments: list[str]) -> list[Path]:
    """Returns the folder of benchkit's own YAML, and the one that --config-dir adds."""
    folders = [config_folder()]
    words = [part for argument in arguments for part in argument.split("=", 1)]
    for flag, value in itertools.pairwise(words):
        if flag in ("--config-dir", "-cd"):
            folders.append(Path(value))
    return folders


def terminate(number: int, frame: Any) -> None:
    raise StopRequested(number)


def exit_code(statuses: list[str]) -> int:
    """Returns 1 where a point failed, or where points ran and none was measured; else 0."""
    from benchkit.record import HARMLESS

    failed = any(status not in HARMLESS for status in statuses)
    return EXIT_FAILED if failed or (statuses and "ok" not in statuses) else EXIT_OK


def run_job(composed: DictConfig) -> None:
    """Refuses to run a point for Hydra, because benchkit's sweeper runs all points itself."""
    raise ConfigError(
        "hydra.mode and hydra/sweeper are benchkit's: one point is a sweep of one, "
        "and checked first"
    )
