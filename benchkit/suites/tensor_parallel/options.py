"""Expands the implementations of a configuration to combinations of options; imports no torch."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from benchkit.api.keys import as_list
from benchkit.errors import ConfigError
from benchkit.suites.tensor_parallel.names import IMPLEMENTATION

Values = tuple[str, ...] | type[int]
Allowed = Mapping[str, Mapping[str, Values]]
"""Values of each option of each implementation.

The first value is the default; `int` allows any number from 1.
"""
DEFAULT_INT = 4


def expand(given: Mapping[str, Any], allowed: Allowed) -> list[dict[str, str | int]]:
    """Returns every implementation with every combination of its options.

    A group of options adds only the combinations that no earlier group has.

    Args:
        given: a dictionary of options for each implementation, or a list of such dictionaries,
            each of which is expanded by itself; None removes an implementation.
        allowed: the options that exist.

    Raises:
        ConfigError: for names and values that do not exist.
    """
    found: list[dict[str, str | int]] = []
    for name, groups in given.items():
        if name not in allowed:
            known = ", ".join(allowed)
            raise ConfigError(
                f"implementations.{name}: no such implementation; allowed are {known}"
            )
        for group in groups_of(groups):
            expanded = combinations(name, group, allowed[name])
            found += [options for options in expanded if options not in found]
    if not found:
        raise ConfigError(f"implementations: none is left; allowed are {', '.join(allowed)}")
    return found


def groups_of(value: Any) -> list[Any]:
    """Returns the groups of options of an implementation: a list of them, a single one or None."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def combinations(
    name: str, group: Any, options: Mapping[str, Values]
) -> Iterator[dict[str, str | int]]:
    """Yields every combination of one group of options."""
    if not isinstance(group, Mapping):
        raise ConfigError(
            f"implementations.{name}={group}: allowed is "
            "{option: value or list of values}, or null"
        )
    if unknown := set(group) - set(options):
        known = f"allowed are {', '.join(options)}" if options else "it has none"
        raise ConfigError(f"implementations.{name}.{min(unknown)}: no such option; {known}")
    values = []
    for option, choices in options.items():
        default = choices[0] if isinstance(choices, tuple) else DEFAULT_INT
        wanted = as_list(group.get(option, default))
        values.append([checked(f"{name}.{option}", value, choices) for value in wanted])
    for chosen in itertools.product(*values):
        yield {IMPLEMENTATION: name, **dict(zip(options, chosen, strict=True))}


def checked(name: str, value: Any, choices: Values) -> str | int:
    """Returns a value that is allowed; raises ConfigError for any other."""
    if isinstance(choices, tuple):
        if value not in choices:
            raise ConfigError(f"implementations.{name}={value}: allowed are {', '.join(choices)}")
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"implementations.{name}={value}: allowed are whole numbers >= 1")
    return value
