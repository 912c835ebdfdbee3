"""The suites there are: each a function `(config, rank) -> list[Case]`, found by its decorator.

A suite's file imports torch inside its functions only: its dataclass is read to check the command line,
which must answer at once.
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
"""Environment variable: comma-separated modules outside benchkit.suites that define suites of your own."""


@dataclass(frozen=True)
class Suite:
    """A suite as the registry holds it.

    Attributes:
        summary: first line of the function's docstring.
        preload: modules that every rank would import; they start no thread and touch no GPU. From the constant PRELOAD
            of the suite's module, where it has one.
    """

    name: str
    config: type[RunConfig]
    build: Callable[[Any, Any], list[Any]]
    summary: str
    preload: tuple[str, ...] = ()


SUITES: dict[str, Suite] = {}


def suite(build: Callable[[Any, Any], list[Any]]) -> Callable[[Any, Any], list[Any]]:
    """Registers a suite under its function's name, typed by the annotation of its first parameter."""
    config = next(iter(typing.get_type_hints(build).values()))
    summary = (build.__doc__ or "").strip().splitlines()[0]
    preload = getattr(sys.modules[build.__module__], "PRELOAD", ())
    SUITES[build.__name__] = Suite(build.__name__, config, build, summary, preload)
    return build


def suite_modules() -> list[str]:
    """The names of all modules that define suites."""
    found = importlib.import_module("benchkit.suites").__path__
    own = [f"benchkit.suites.{each.name}.suite" for each in pkgutil.iter_modules(found)]
    return own + [name for name in os.environ.get(EXTRA_SUITES, "").split(",") if name]


def load_suites() -> dict[str, Suite]:
    """Imports every suite module and returns the registry."""
    for name in suite_modules():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in (name, name.split(".")[0]):
                raise
            raise ConfigError(f"{EXTRA_SUITES}={name}: no such module; allowed are importable modules") from None
    for name in sorted(SUITES):  # whichever was imported first
        SUITES[name] = SUITES.pop(name)
    return SUITES


def start_fork_server(names: Iterable[str]) -> None:
    """Starts the server that forks ranks; it loads torch and what these suites need while the caller goes on."""
    needed = dict.fromkeys(module for name in names for module in load_suites()[name].preload)
    start.start_fork_server(["torch", "torch.distributed", "benchkit.rank.main", *suite_modules(), *needed])
