"""Leaves out of a configuration of DDLB what has no counterpart here, and says so."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchkit.api.keys import as_list, described_keys
from benchkit.api.registry import load_suites

SHAPE = ("m", "n", "k")
ITERATIONS, WARMUPS = "num_iterations", "num_warmups"
TIMER, BARRIER = "time_measurement_backend", "barrier_at_each_iteration"
IMPLEMENTATIONS = "implementations"
DEFAULTS: dict[str, Any] = {
    "primitive": "", **dict.fromkeys(SHAPE), "dtype": "float32", "validate": True,
    ITERATIONS: 50, WARMUPS: 5, "output_csv": None, TIMER: "cuda_event", BARRIER: True,
    IMPLEMENTATIONS: {},
}  # fmt: skip
"""The keys of DDLB. The primitive and the shape must be there."""
IN_ANOTHER_WAY = {
    ("validate", False): "results are always checked, outside the timed region",
    (TIMER, "cpu_clock"): "CUDA events time GPUs, and the host's clock times CPUs",
}
"""What a command cannot ask for, by key and value."""


def split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Splits settings into those that a command can ask for, and one line for each of the others.

    Values of known keys stay, right or wrong.
    """
    lines = [
        f"left out: {name}: no such key of DDLB; allowed are {', '.join(DEFAULTS)}"
        for name in settings.keys() - DEFAULTS.keys()
    ]
    for (name, value), why in IN_ANOTHER_WAY.items():
        if value in as_list(settings[name]):
            lines.append(f"left out: {name}={json.dumps(value)}: {why}")
    if not settings[BARRIER]:
        lines.append(
            f"{BARRIER}=false: DDLB takes the total of all calls once; here the total of "
            f"{settings[ITERATIONS]} calls is a sample, and several are taken"
        )
    implementations = settings[IMPLEMENTATIONS]
    if isinstance(implementations, Mapping):
        found = Implementations(as_list(settings["primitive"]))
        implementations = dict(found.known(implementations))
        lines += [f"left out: {line}" for line in found.unknown]
    kept = {name: settings[name] for name in DEFAULTS}
    return kept | {IMPLEMENTATIONS: implementations}, lines


class Implementations:
    """Sorts implementations and their options into known and unknown ones.

    Attributes:
        unknown: one line for each that a primitive does not have here.
    """

    def __init__(self, primitives: Sequence[str]) -> None:
        self.unknown: list[str] = []
        self._suites = [suite for suite in load_suites().values() if suite.name in primitives]

    def known(self, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yields the names of the known ones, with groups of known options."""
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
    """Returns the suites that give each implementation its options, as DDLB does."""
    implementations = {
        suite.name: described_keys(suite.config).get(IMPLEMENTATIONS)
        for suite in load_suites().values()
    }
    return [name for name, found in implementations.items() if found and found[1] == dict[str, Any]]
