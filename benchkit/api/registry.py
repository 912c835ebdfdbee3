"""The registry of suites: each is a decorated function `(config, rank) -> list[Case]`.

The file of a suite imports no torch: its dataclass checks the command line, which must respond
quickly.
"""

import functools
import importlib
import os
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from benchkit.api.keys import RunConfig
from benchkit.api.question import Question
from benchkit.errors import ConfigError

PRELOADED_MODULES = (
    "benchkit.rank.server_streams",
    "torch",
    "torch.distributed",
    "numpy.ma",
    "benchkit.rank.main",
)
"""Modules that every rank imports; numpy.ma is imported by a process's first np.median()."""
EXTRA_SUITES = "BENCHKIT_SUITES"
"""Environment variable: comma-separated modules outside benchkit.suites with suites."""
ENTRY_POINTS = "benchkit.suites"
"""Group of entry points of installed distributions: names of suites and their modules."""


@dataclass(frozen=True)
class Suite:
    """A suite, by which its decorator replaces the function.

    Attributes:
        name: name of the function and of the suite on the command line.
        build: the function.
        summary: first line of the function's docstring.
        preload: modules that every rank imports, from the constant PRELOAD of the suite's module.
            They start no thread and touch no GPU.
        resolvers: functions for `${name:argument}` in the suite's YAML, from the constant RESOLVERS
            of the suite's module.
        question: the constant QUESTION of the suite's module.
    """

    name: str
    config: type[RunConfig]
    build: Callable[[Any, Any], list[Any]]
    summary: str
    preload: tuple[str, ...] = ()
    resolvers: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    question: Question | None = None


def suite(build: Callable[[Any, Any], list[Any]]) -> Suite:
    """Make a suite of a function, configured by the type of its first parameter.

    Raises ConfigError if that is no RunConfig, or if the docstring is missing.
    """
    config = next(iter(typing.get_type_hints(build).values()), None)
    name = f"{build.__module__}.{build.__name__}"
    if not (isinstance(config, type) and issubclass(config, RunConfig)):
        raise ConfigError(f"{name}: allowed as its first parameter is a dataclass of RunConfig")
    if not (build.__doc__ or "").strip() and sys.flags.optimize < 2:  # -OO drops docstrings
        raise ConfigError(f"{name}: a suite needs a docstring; its first line is the summary")
    summary = (build.__doc__ or "").strip().partition("\n")[0]
    module = sys.modules[build.__module__]
    return Suite(
        name=build.__name__,
        config=config,
        build=build,
        summary=summary,
        preload=getattr(module, "PRELOAD", ()),
        resolvers=getattr(module, "RESOLVERS", {}),
        question=getattr(module, "QUESTION", None),
    )


def cases_in(module: str, config: RunConfig, rank: Any) -> list[Any]:
    """Return the suite's cases by `cases_of(config, rank)` of a module.

    The module is given by name, because importing it loads torch.
    """
    cases: list[Any] = importlib.import_module(module).cases_of(config, rank)
    return cases


@functools.cache
def own_modules() -> tuple[str, ...]:
    """Return the modules of benchkit's suites; folders without suite.py hold shared code."""
    [folder] = importlib.import_module("benchkit.suites").__path__
    names = (path.parent.name for path in sorted(Path(folder).glob("*/suite.py")))
    return tuple(f"benchkit.suites.{name}.suite" for name in names)


@dataclass(frozen=True)
class Plugins:
    """The suites of installed distributions, and the reasons for unusable ones, by name."""

    suites: Mapping[str, Suite]
    left_out: Mapping[str, str]

    @property
    def modules(self) -> list[str]:
        return list(dict.fromkeys(each.build.__module__ for each in self.suites.values()))


@functools.cache
def installed_plugins() -> Plugins:
    """Import the suites of ENTRY_POINTS; an unusable one does not affect the others."""
    suites: dict[str, Suite] = {}
    left_out: dict[str, str] = {}
    points = entry_points(group=ENTRY_POINTS)
    own_suites = suites_in(own_modules()) if points else {}
    for name in sorted(points.names):
        try:
            suites[name] = load_plugin(points.select(name=name), own_suites)
        except ConfigError as error:
            left_out[name] = str(error)
    return Plugins(suites, left_out)


def load_plugin(points: EntryPoints, own_suites: Mapping[str, Suite]) -> Suite:
    """Import the suite of the entry points of one name; raise ConfigError if it is unusable."""
    point, *duplicates = points
    owners = " and ".join(sorted(str(each.dist.name) for each in points if each.dist))
    name, problem = point.name, f"suite {point.name} of {owners}"
    if duplicates:
        raise ConfigError(f"{problem}: two packages of one suite name; allowed is one of them")
    if name in own_suites:
        raise ConfigError(f"{problem}: a suite of benchkit has this name; allowed is another")
    try:
        suites = suites_of(import_unpinned(point.module))
    except (Exception, SystemExit) as error:  # whatever a module raises, or a malformed name
        reason = (str(error) or "no reason given").splitlines()[0]
        raise ConfigError(
            f"{problem}: cannot import {point.value} ({type(error).__name__}: {reason})"
        ) from None
    if name not in suites:
        defined = ", ".join(suites) or "none"
        raise ConfigError(
            f"{problem}: {point.value} defines no such suite, but {defined}; "
            "allowed is the module of the function of this name"
        )
    return suites[name]


def plugin_modules() -> list[str]:
    """Return the modules of suites that are not benchkit's own."""
    return list(dict.fromkeys([*installed_plugins().modules, *extra_modules()]))


def suite_modules() -> list[str]:
    return [*own_modules(), *plugin_modules()]


def plugin_folders() -> list[Path]:
    """Return the folders `conf` beside the modules of suites that are not benchkit's own."""
    suites_in(extra_modules())  # imports them, or raises for a missing one
    files = (getattr(sys.modules[name], "__file__", None) for name in plugin_modules())
    folders = dict.fromkeys(Path(file).parent / "conf" for file in files if file)
    return [folder for folder in folders if folder.is_dir()]


def extra_modules() -> list[str]:
    """Return the modules in EXTRA_SUITES; raise ConfigError for an invalid name."""
    modules = [name for name in os.environ.get(EXTRA_SUITES, "").split(",") if name]
    for name in modules:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ConfigError(f"{EXTRA_SUITES}={name}: allowed are names such as package.module")
    return modules


def load_suites() -> dict[str, Suite]:
    """Return all suites by name, sorted; those of EXTRA_SUITES take precedence.

    Raises ConfigError for a missing module in EXTRA_SUITES.
    """
    own_suites, extra_suites = suites_in(own_modules()), suites_in(extra_modules())
    return dict(sorted({**own_suites, **installed_plugins().suites, **extra_suites}.items()))


def suites_in(modules: Iterable[str]) -> dict[str, Suite]:
    """Return the suites of modules by name; raise ConfigError for a module that is missing."""
    suites: dict[str, Suite] = {}
    for name in modules:
        try:
            suites |= suites_of(import_unpinned(name))
        except ModuleNotFoundError as error:
            if not f"{name}.".startswith(f"{error.name}."):
                raise
            reason = "no such module; allowed are importable modules"
            raise ConfigError(f"{EXTRA_SUITES}={name}: {reason}") from None
    return dict(sorted(suites.items()))


def import_unpinned(module: str) -> ModuleType:
    """Import a module without the variables by which it would pin this process."""
    from launch.host import hide_pinning  # here: analysis, too, reads the files of suites

    with hide_pinning():  # a suite may load torch, which would pin this agent
        return importlib.import_module(module)


def suites_of(module: ModuleType) -> dict[str, Suite]:
    return {each.name: each for each in vars(module).values() if isinstance(each, Suite)}


def preload_for(names: Iterable[str]) -> list[str]:
    suites = load_suites()
    needed = dict.fromkeys(module for name in names for module in suites[name].preload)
    return [*PRELOADED_MODULES, *suite_modules(), *needed]
