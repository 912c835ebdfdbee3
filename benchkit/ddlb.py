"""`python -m benchkit import-config ddlb.json` prints the command for a configuration of DDLB."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.api.keys import as_list, described_keys
from benchkit.api.registry import load_suites
from benchkit.config.command_line import override
from benchkit.errors import ConfigError
from benchkit.sweep.check import check

SHAPE = ("m", "n", "k")
ITERATIONS, WARMUPS = "num_iterations", "num_warmups"
TIMER, BARRIER = "time_measurement_backend", "barrier_at_each_iteration"
IMPLEMENTATIONS = "implementations"
DEFAULTS: dict[str, object] = {
    "primitive": "", **dict.fromkeys(SHAPE), "dtype": "float32", "validate": True,
    ITERATIONS: 50, WARMUPS: 5, "output_csv": None, TIMER: "cpu_clock", BARRIER: True,
    IMPLEMENTATIONS: {},
}  # fmt: skip
UNSUPPORTED = {
    ("validate", False): "results are always checked, outside the timed region",
    (TIMER, "cpu_clock"): "CUDA events time GPUs, and the host's clock times CPUs",
}
"""Settings without a counterpart in benchkit, by key and value, and why."""


def split(settings: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Split settings into those with a counterpart in benchkit, and a line for each other one."""
    lines = [
        f"left out: {name}: no such key of DDLB; allowed are {', '.join(DEFAULTS)}"
        for name in settings.keys() - DEFAULTS.keys()
    ]
    for (name, value), why in UNSUPPORTED.items():
        if value in as_list(settings[name]):
            lines.append(f"left out: {name}={json.dumps(value)}: {why}")
    if not settings[BARRIER]:
        lines.append(
            f"{BARRIER}=false: DDLB takes the total of all calls once; here the total of "
            f"{settings[ITERATIONS]} calls is a sample, and several are taken"
        )
    implementations = settings[IMPLEMENTATIONS]
    if isinstance(implementations, Mapping):
        sorter = Implementations(as_list(settings["primitive"]))
        implementations = dict(sorter.keep_known(implementations))
        lines += [f"left out: {line}" for line in sorter.unknown]
    supported = {name: settings[name] for name in DEFAULTS}
    return supported | {IMPLEMENTATIONS: implementations}, lines


class Implementations:
    """Sorts implementations and options into known and unknown ones, a line for each."""

    def __init__(self, primitives: Sequence[str]) -> None:
        self.unknown: list[str] = []
        self._suites = [suite for suite in load_suites().values() if suite.name in primitives]

    def keep_known(self, given: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
        for name, groups in given.items():
            if self._is_known(name):
                yield name, [self._with_known_options(name, group) for group in as_list(groups)]

    def _with_known_options(self, name: str, group: Any) -> Any:
        if not isinstance(group, Mapping):
            return group
        return {
            option: value for option, value in group.items() if self._is_known(f"{name}.{option}")
        }

    def _is_known(self, name: str) -> bool:
        lines = [suite.config.unknown(IMPLEMENTATIONS, name) for suite in self._suites]
        self.unknown += [line for line in lines if line and line not in self.unknown]
        return not any(lines)


def primitives() -> list[str]:
    """Return the suites that give each implementation its options, as DDLB does."""
    implementations = {
        suite.name: described_keys(suite.config).get(IMPLEMENTATIONS)
        for suite in load_suites().values()
    }
    return [
        name
        for name, description in implementations.items()
        if description and description[1] == dict[str, Any]
    ]


def main(arguments: list[str]) -> int:
    """Print the equivalent command, and a line for each setting that it omits or changes.

    Return 2 if the file has a mistake, or only settings without a counterpart. Raise ConfigError
    if it is no configuration of DDLB.
    """
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise ConfigError(f"import-config {' '.join(arguments)}: allowed is one JSON file of DDLB")
    path = arguments[0]
    settings, lines = split(read(path))
    problems = [*problems_of(settings)]
    if not problems:
        command = command_of(settings)
        try:
            check(command)
        except ConfigError as error:
            problems = [str(error)]
    for line in (*lines, *problems):
        print(f"benchkit: {path}: {line}", file=sys.stderr)
    if problems:
        return 2
    print(shlex.join(["python", "-m", "benchkit", *command]))
    return 0


def read(path: str) -> Mapping[str, object]:
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


def problems_of(settings: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong, one line each; each part of the command is checked separately."""
    for name in SHAPE:
        if settings[name] is None:
            yield f"{name}: missing; allowed is a whole number, or a list of them"
    implementations = settings[IMPLEMENTATIONS]
    if not isinstance(implementations, Mapping) or not implementations:
        allowed = "allowed is an object with a list of options for each implementation"
        yield f"{IMPLEMENTATIONS}={json.dumps(implementations)}: {allowed}"
        return
    for primitive in as_list(settings["primitive"]):
        if primitive not in primitives():
            yield f"primitive={primitive}: allowed are {', '.join(primitives())}"
            continue
        for name, groups in implementations.items():
            try:
                check([f"+suite={primitive}", *replace_implementations({name: groups})])
            except ConfigError as error:
                yield str(error)


def command_of(settings: Mapping[str, object]) -> list[str]:
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
        *replace_implementations(settings[IMPLEMENTATIONS]),
    ]


def replace_implementations(implementations: object) -> list[str]:
    """Return the overrides that replace all implementations, and their options, by these."""
    return [f"~{IMPLEMENTATIONS}", override(f"+{IMPLEMENTATIONS}", implementations)]
