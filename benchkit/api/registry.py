"""Registers the suites: each is a function `(config, rank) -> list[Case]`, found by its decorator.

The file of a suite imports torch only inside its functions, because its dataclass is read to check
the command line, which must answer at once.
"""

import importlib
import os
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from launch.ranks import start

EXTRA_SUITES = "BENCHKIT_SUITES"
"""Environment variable: comma-separated modules outside benchkit.suites that define suites."""


@dataclass(frozen=True)
class Suite:
    """A suite as the registry holds it.

    Attributes:
        name: name of the function, which is the suite's name on the command line.
        config: dataclass of the suite's configuration.
        build: the function, which returns the cases of a rank.
        summary: first line of the function's docstring.
        preload: modules that every rank would import; they start no thread and touch no GPU. They
            come from the constant PRELOAD of the suite's module, where it has one.
    """

    name: str
    config: type[RunConfig]
    build: Callable[[Any, Any], list[Any]]
    summary: str
    preload: tuple[str, ...] = ()


SUITES: dict[str, Suite] = {}


def suite(build: Callable[[Any, Any], list[Any]]) -> Callable[[Any, Any], list[Any]]:
    """Registers a function as a suite, configured by the type of its first parameter."""
    config = next(iter(typing.get_type_hints(build).values()))
    summary = (build.__doc__ or "").strip().splitlines()[0]
    preload = getattr(sys.modules[build.__module__], "PRELOAD", ())
    SUITES[build.__name__] = Suite(build.__name__, config, build, summary, preload)
    return build


def suite_modules() -> list[str]:
    """Returns the names of all modules that define suites."""
    found = importlib.import_module("benchkit.suites").__path__
    own = [f"benchkit.suites.{package.name}.suite" for package in pkgutil.iter_modules(found)]
    return own + [name for name in os.environ.get(EXTRA_SUITES, "").split(",") if name]


def load_suites() -> dict[str, Suite]:
    """Imports every suite's module and returns the registry, sorted by name.

    Raises:
        ConfigError: a module that EXTRA_SUITES names does not exist.
    """
    for name in suite_modules():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.split(".")[0]):
                raise
            reason = "no such module; allowed are importable modules"
            raise ConfigError(f"{EXTRA_SUITES}={name}: {reason}") from None
    for name in sorted(SUITES):  # the order must not depend on which was imported first
        SUITES[name] = SUITES.pop(name)
    return SUITES


def start_fork_server(names: Iterable[str]) -> None:
    """Starts the server that forks ranks.

    The server loads torch and what the named suites need while the caller goes on.
    """
    needed = dict.fromkeys(module for name in names for module in load_suites()[name].preload)
    always = ["torch", "torch.distributed", "benchkit.rank.main"]
    start.start_fork_server([*always, *suite_modules(), *needed])
