"""The command line: Hydra in front, one point or a sweep behind, an exit code at the end."""

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
REFUSALS = (ConfigError, JoinError, HydraException, OmegaConfBaseException, YAMLError, OSError, ValueError)
"""What is raised where the configuration is wrong, by us, by Hydra and by what Hydra reads."""


def main() -> int:
    """Runs what the command line says.

    Returns 0 where all is well, 1 where a point failed or none was measured, 2 where the configuration is wrong,
    and 128 + N where signal N ended it.
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
    """Why a command line is refused, as `main` says it; "" where it would run. Starts and writes nothing."""
    try:
        compose.register()
        run_hydra([*multirun_first(resume.parse(arguments)), "hydra.sweeper.only_check=true"])
    except REFUSALS as error:
        return in_one_line(error)
    return ""


def in_one_line(refusal: Exception) -> str:
    """One line for one of REFUSALS; several for a missing suite, which lists all suites."""
    return str(refusal) if isinstance(refusal, ConfigError | JoinError) else messages.explain(refusal)


def complain(message: str) -> None:
    """One line on standard error; where there are several agents it says whose."""
    me = topology.detect_launcher()
    agent = f"agent {me.index} on {topology.node_name()}: " if me.index else ""
    print(f"benchkit: {agent}{message}", file=sys.stderr)


def multirun_first(arguments: list[str]) -> list[str]:
    """Moves -m/--multirun to the front: Hydra 1.3 takes no override after a flag (hydra #3053, fixed in 1.4)."""
    flags = [argument for argument in arguments if argument in ("-m", "--multirun")]
    return flags[:1] + [argument for argument in arguments if argument not in flags]


def run_hydra(arguments: list[str]) -> None:
    """Runs all points; raises one of REFUSALS where the configuration is wrong."""
    start = hydra.main(config_path=str(config_folder()), config_name="config", version_base="1.3")(run_job)
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
    """Gives Hydra these arguments, and makes it raise errors, which it would else print before it exits."""
    given, wanted = sys.argv[1:], os.environ.get("HYDRA_FULL_ERROR")
    sys.argv[1:], os.environ["HYDRA_FULL_ERROR"] = arguments, "1"
    try:
        yield
    finally:
        sys.argv[1:] = given
        del os.environ["HYDRA_FULL_ERROR"]
        if wanted is not None:
            os.environ["HYDRA_FULL_ERROR"] = wanted


def set_per_point(arguments: list[str]) -> list[str]:
    """Values of suites' own keys as sweeps of one value, where no single suite is chosen here.

    Hydra sets what does not vary before a sweep chooses its suites, when nothing has such a key yet.
    """
    if any(argument.startswith("+suite=") and "," not in argument for argument in arguments):
        return arguments
    own = messages.keys_of_suites()
    parsed = [(argument, *argument.partition("=")[::2]) for argument in arguments]
    return [
        f"{key}=choice({value})" if key.split(".")[0] in own and value and not varies(argument) else argument
        for argument, key, value in parsed
    ]


def varies(argument: str) -> bool:
    """Whether an override is a sweep already, or none that Hydra understands."""
    try:
        return bool(OverridesParser.create().parse_override(argument).is_sweep_override())
    except HydraException:
        return True


def config_folder() -> Path:
    """conf/ inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def config_folders(arguments: list[str]) -> list[Path]:
    """benchkit's own YAML, and the folder that --config-dir adds."""
    words = [part for argument in arguments for part in argument.split("=", 1)]
    return [
        config_folder(),
        *(Path(value) for flag, value in itertools.pairwise(words) if flag in ("--config-dir", "-cd")),
    ]


def terminate(number: int, frame: Any) -> None:
    raise StopRequested(number)


def exit_code(statuses: list[str]) -> int:
    """1 where any point failed, or where points ran and none was measured."""
    from benchkit.record import HARMLESS

    failed = any(status not in HARMLESS for status in statuses)
    return EXIT_FAILED if failed or (statuses and "ok" not in statuses) else EXIT_OK


def run_job(composed: DictConfig) -> None:
    """What Hydra would run for each point; benchkit's sweeper does that itself."""
    raise ConfigError("hydra.mode and hydra/sweeper are benchkit's: one point is a sweep of one, and checked first")
