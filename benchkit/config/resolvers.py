"""The functions that YAML calls as `${name:argument}`: for every suite, and the suites' own."""

from collections.abc import Callable, Sequence
from typing import Any

from benchkit.api.registry import load_suites
from benchkit.errors import ConfigError
from benchkit.visible_gpus import visible_gpus


def largest(numbers: Sequence[int]) -> int:
    """Returns the largest of some numbers, and at least 1."""
    return max([1, *numbers])


def counts_of_gpus() -> str:
    """Returns those of 2, 4, 6, 8, 16, 32, … for which there are GPUs.

    With fewer than 2 GPUs it still returns 2; such a point then says that they are missing.
    """
    most = max(2, len(visible_gpus().names))
    powers = [2**exponent for exponent in range(1, most.bit_length())]
    return ",".join(str(count) for count in sorted({*powers, 6}) if count <= most)


def hardware_here() -> str:
    """Returns the option of the group `hardware` for this machine."""
    return "cuda" if visible_gpus().names else "cpu"


def backend_for(hardware: str) -> str:
    """Returns the backend that belongs to an option of the group `hardware`.

    NCCL refuses ranks that share a GPU, as those of all other options on GPUs do.
    """
    chosen = hardware_here() if hardware == "auto" else hardware
    return "nccl" if chosen == "cuda" else "gloo"


def collect_resolvers() -> dict[str, Callable[..., Any]]:
    """Returns all resolvers by name.

    Raises:
        ConfigError: a suite's resolver has the name of another one.
    """
    found: dict[str, Callable[..., Any]] = {
        "largest": largest,
        "commas": ",".join,
        "counts_of_gpus": counts_of_gpus,
        "hardware_here": hardware_here,
        "backend_for": backend_for,
    }
    for suite in load_suites().values():
        for name, resolver in suite.resolvers.items():
            if found.setdefault(name, resolver) is not resolver:
                raise ConfigError(
                    f"suite {suite.name}: resolver {name}: the name is taken; "
                    "allowed is one that no other resolver has"
                )
    return found
