"""Find the parts of reports that suites add: their questions, and modules with these functions.

`write(table) -> dict[file name, text]` and `show(table, baseline) -> dict[name, Chart]` return an
empty dictionary without data for them. A chart is drawn for the files of the report and for the
page. They are in modules `table` and `charts`: of benchkit's suites in `analysis/suites/NAME`, of
others beside the module that defines the suite.

A module `verdict` has CONCLUDED, names of suites, and `conclude(table) -> lines`, which answers for
all records of these suites together.

Each part of a report may fail without affecting the others.
"""

import contextlib
import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Protocol, TypeVar

import pandas as pd

from analysis.shared.text import complain
from benchkit.api.question import Question
from benchkit.api.registry import (
    Suite,
    extra_modules,
    installed_plugins,
    own_modules,
    plugin_modules,
    suites_in,
)
from benchkit.errors import ConfigError

Made = TypeVar("Made")


class Attempt(Protocol):
    """Make a part of a report; `what` names it in the message where it fails."""

    def __call__(self, what: str, make: Callable[[], Made]) -> Made | None: ...


def make_directly(what: str, make: Callable[[], Made]) -> Made | None:
    """Return what `make` returns, and let its exceptions pass."""
    return make()


def make_or_leave_out(what: str, make: Callable[[], Made]) -> Made | None:
    """Return what `make` returns; if it fails, print a line on stderr and return None.

    Raises:
        OSError: a file cannot be written, which concerns all parts.
    """
    try:
        return make()
    except OSError:
        raise
    except Exception as error:
        lines = str(error).splitlines() or [""]
        complain("analysis", f"left out {what}: {type(error).__name__}: {lines[0]}")
        return None


FIRST, LAST = "analysis.report.sizes", "analysis.report.speedups"
"""Modules for all suites, before and after those of single suites."""
PARTS = ("table", "charts")
ACCEPTANCE = "analysis.acceptance.verdict"
"""Answers for the records of several of benchkit's suites together."""


def write_all(table: pd.DataFrame, attempt: Attempt = make_directly) -> Iterator[tuple[str, str]]:
    """Yield the file names and texts of all suites' own tables; each module is one attempt."""
    for name, module in modules_with("write"):
        make = partial(module.write, table)
        texts: dict[str, str] | None = attempt(f"tables of {name}", make)
        yield from (texts or {}).items()


def modules_with(function: str) -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules that define a function of this name, each with a name for messages."""
    for name in [FIRST, *modules_of_suites(PARTS), LAST]:
        module = module_or_none(name)
        if module and hasattr(module, function):
            yield name.removeprefix("analysis.").removeprefix("suites."), module


def suites_with_comparisons() -> set[str]:
    """Return the suites whose own charts show their comparison: COMPARED of these modules."""
    return {name for _, module in modules_with("show") for name in getattr(module, "COMPARED", ())}


@functools.cache
def module_or_none(name: str) -> ModuleType | None:
    """Import a module; if that fails, print a line once and return None."""
    return make_or_leave_out(name, partial(importlib.import_module, name))


def modules_of_suites(parts: Sequence[str]) -> list[str]:
    """Return the names of those of these modules that suites have."""
    builtin = [f"analysis.suites.{name.split('.')[2]}" for name in own_modules()]
    packages = [*builtin, *(name.removesuffix(".suite") for name in plugin_modules())]
    modules = []
    for name in (f"{package}.{part}" for package in packages for part in parts):
        try:
            modules += [name] if importlib.util.find_spec(name) else []
        except ModuleNotFoundError:  # The suite is no package, or none that is installed here.
            continue
    return modules


def known_suites() -> dict[str, Suite]:
    """Return the suites that can be imported here, by their names."""
    suites = {**suites_in(own_modules()), **installed_plugins().suites}
    for name in extra_modules():
        with contextlib.suppress(ImportError, ConfigError):
            suites |= suites_in([name])
    return suites


def questions() -> dict[str, Question]:
    """Return the question of each suite that has one, by its name."""
    suites = known_suites().items()
    return {name: suite.question for name, suite in suites if suite.question}


def summaries() -> dict[str, str]:
    """Return a sentence on what each suite measures, by its name."""
    return {name: suite.summary for name, suite in known_suites().items()}


def conclusions() -> list[ModuleType]:
    """Return the modules that answer for all records of several suites together."""
    modules = map(module_or_none, [ACCEPTANCE, *modules_of_suites(("verdict",))])
    return [module for module in modules if module]
