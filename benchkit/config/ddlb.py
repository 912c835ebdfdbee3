"""`python -m benchkit import-config ddlb.json` prints the command for a configuration of DDLB."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchkit.api.keys import as_list
from benchkit.config.ddlb_counterparts import (
    BARRIER,
    DEFAULTS,
    IMPLEMENTATIONS,
    ITERATIONS,
    SHAPE,
    WARMUPS,
    primitives,
    split,
)
from benchkit.config.override_text import override
from benchkit.errors import ConfigError

Check = Callable[[list[str]], str]
"""Returns why a command line would be refused; "" where its points would run."""


def main(arguments: list[str], check: Check) -> int:
    """Prints the equivalent command, and a line for each thing that it leaves out or does else.

    Args:
        arguments: the path of the file.
        check: how `python -m benchkit` checks a command line.

    Returns:
        0; 2 where the file has a mistake, or nothing else than what is left out.

    Raises:
        ConfigError: the file holds no configuration of DDLB.
    """
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise ConfigError(f"import-config {' '.join(arguments)}: allowed is one JSON file of DDLB")
    path = arguments[0]
    settings, lines = split(read(path))
    problems = [*problems_of(settings, check)]
    if not problems:
        command = command_of(settings)
        problems = [*filter(None, [check(command)])]
    for line in (*lines, *problems):
        print(f"benchkit: {path}: {line}", file=sys.stderr)
    if problems:
        return 2
    print(shlex.join(["python", "-m", "benchkit", *command]))
    return 0


def read(path: str) -> Mapping[str, Any]:
    """Reads the settings of a file, with DDLB's defaults for those that it leaves out.

    Raises:
        ConfigError: the file holds no configuration of DDLB.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        settings = content["benchmark"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"import-config {path}: no configuration of DDLB ({why})") from None
    if not isinstance(settings, Mapping):
        allowed = f"allowed is an object with {', '.join(DEFAULTS)}"
        raise ConfigError(f"import-config {path}: benchmark={settings!r:.40}: {allowed}")
    return {**DEFAULTS, **settings}


def problems_of(settings: Mapping[str, Any], check: Check) -> Iterator[str]:
    """Yields what is wrong, one line each; every part of the command is checked alone."""
    for name in SHAPE:
        if settings[name] is None:
            yield f"{name}: missing; allowed is a whole number, or a list of them"
    if not isinstance(settings[IMPLEMENTATIONS], Mapping) or not settings[IMPLEMENTATIONS]:
        allowed = "allowed is an object with a list of options for each implementation"
        yield f"{IMPLEMENTATIONS}={json.dumps(settings[IMPLEMENTATIONS])}: {allowed}"
        return
    for primitive in as_list(settings["primitive"]):
        if primitive not in primitives():
            yield f"primitive={primitive}: allowed are {', '.join(primitives())}"
            continue
        for name, groups in settings[IMPLEMENTATIONS].items():
            alone = [f"+suite={primitive}", *only({name: groups})]
            yield from filter(None, [check(alone)])


def command_of(settings: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of `python -m benchkit`; lists of sizes and dtypes multiply out."""
    count, warmups = settings[ITERATIONS], settings[WARMUPS]
    if settings[BARRIER]:
        measure = ["measure=fixed", override("measure.max_iterations", count)]
        measure.append(override("measure.min_blocks", count))
    else:
        # DDLB then divides the time of all iterations by their number, as a loop does.
        measure = ["measure=loop", override("measure.calls_per_sample", count)]
        warmups = min(1, warmups) if isinstance(warmups, int) else warmups  # samples of a loop
    return [
        override("+suite", settings["primitive"]),
        "-m",
        *(override(name, settings[name]) for name in (*SHAPE, "dtype")),
        *measure,
        override("measure.warmup_iterations", warmups),
        *only(settings[IMPLEMENTATIONS]),
    ]


def only(implementations: Mapping[str, Any]) -> list[str]:
    """Returns overrides that leave no other implementation than these, with their options."""
    return [f"~{IMPLEMENTATIONS}", override(f"+{IMPLEMENTATIONS}", implementations)]
