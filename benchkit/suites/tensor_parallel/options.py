"""Implementations and their options as a configuration has them; lists multiply out. Knows no torch."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from benchkit.api.keys import as_list
from benchkit.errors import ConfigError

Values = tuple[str, ...] | type[int]
Allowed = Mapping[str, Mapping[str, Values]]
"""Per implementation its options, each with its values, the first by default; `int`: any from 1."""
DEFAULT_INT = 4


def expand(given: Mapping[str, Any], allowed: Allowed) -> list[dict[str, str | int]]:
    """Every implementation with every combination of its options; None takes one out.

    An implementation has a dictionary of options, or a list of them, of which each multiplies out by itself. Raises
    ConfigError for names and values that do not exist.
    """
    found: list[dict[str, str | int]] = []
    for name, groups in given.items():
        if name not in allowed:
            raise ConfigError(f"implementations.{name}: no such implementation; allowed are {', '.join(allowed)}")
        for group in groups if isinstance(groups, list) else [] if groups is None else [groups]:
            found += [each for each in combinations(name, group, allowed[name]) if each not in found]
    if not found:
        raise ConfigError(f"implementations: none is left; allowed are {', '.join(allowed)}")
    return found


def combinations(name: str, group: Any, options: Mapping[str, Values]) -> Iterator[dict[str, str | int]]:
    """One group of options multiplied out."""
    if not isinstance(group, Mapping):
        raise ConfigError(f"implementations.{name}={group}: allowed is {{option: value or list of values}}, or null")
    if unknown := set(group) - set(options):
        known = f"allowed are {', '.join(options)}" if options else "it has none"
        raise ConfigError(f"implementations.{name}.{min(unknown)}: no such option; {known}")
    values = []
    for option, choices in options.items():
        wanted = group.get(option, choices[0] if isinstance(choices, tuple) else DEFAULT_INT)
        values.append([checked(f"{name}.{option}", value, choices) for value in as_list(wanted)])
    for chosen in itertools.product(*values):
        yield {"implementation": name, **dict(zip(options, chosen, strict=True))}


def checked(name: str, value: Any, choices: Values) -> str | int:
    """The value where it is allowed."""
    if isinstance(choices, tuple):
        if value not in choices:
            raise ConfigError(f"implementations.{name}={value}: allowed are {', '.join(choices)}")
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"implementations.{name}={value}: allowed are whole numbers >= 1")
    return value
