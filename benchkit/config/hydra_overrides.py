"""The arguments of a command line as Hydra parses them, by Hydra's private parts.

tests/unit/config/test_hydra_internals.py pins these.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.override_parser import types
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Transformer, ValueType
from hydra.errors import HydraException
from omegaconf import DictConfig

from benchkit.config.hydra_internals import groups_required

Override = types.Override
"""One parsed argument of a command line."""


def product(loader: Any, arguments: Sequence[str]) -> Iterator[tuple[Override, ...]]:
    """Yields the overrides of every point: all combinations of the values in the arguments.

    They are what parsing BasicSweeper's lines for each point gives. Of one key the last argument
    counts.

    Raises:
        HydraException: an argument sweeps over an interval, which has no list of values.
    """
    parsed = parse(loader, arguments)
    axes = {override.get_key_element(): values_of(override) for override in parsed}
    return itertools.product(*axes.values())


def values_of(override: Override) -> list[Override]:
    """Returns one override without a sweep for each value of an override."""
    if override.value_type is None:  # a deletion
        return [override]
    values: list[Any] = [override._value]
    if override.is_sweep_override():
        if not override.is_discrete_sweep():
            allowed = "allowed are values, a choice or a range"
            raise HydraException(f"{override.input_line}: {allowed}")
        values = list(override.sweep_iterator())
    key = override.get_key_element()
    return [
        replace(
            override,
            value_type=ValueType.ELEMENT,
            _value=value,
            input_line=f"{key}={Transformer.str(value)}",
        )
        for value in values
    ]


def parse(loader: Any, lines: Sequence[str]) -> list[Override]:
    """Parses overrides by Hydra's grammar."""
    return list(OverridesParser.create(loader).parse_overrides(list(lines)))


@dataclass(frozen=True)
class Overrides:
    """The parsed overrides of a point.

    Attributes:
        own: those that are not for Hydra itself.
        shape: those that shape the point, as given: groups, additions, deletions, Hydra's.
        values: those that only set values.
    """

    own: list[Override]
    shape: tuple[str, ...]
    values: list[Override]

    def lines(self) -> list[str]:
        """Returns those that are not for Hydra itself, as given."""
        return [str(override.input_line) for override in self.own]

    def set_values(self, loader: Any, config: DictConfig) -> None:
        """Sets the values in a configuration that has the shape."""
        for override in self.values:
            set_value(loader, override, config)

    def dirname(self, point: DictConfig) -> str:
        """Returns hydra.job.override_dirname of the point."""
        naming = point.hydra.job.config.override_dirname
        return get_overrides_dirname(self.own, naming.exclude_keys, naming.item_sep, naming.kv_sep)


def sort_overrides(
    overrides: Sequence[Override], is_value: Callable[[Override], bool]
) -> Overrides:
    """Sorts the overrides of a point, none of which sweeps.

    Args:
        overrides: of the point.
        is_value: returns what sets_a_value() does.
    """
    own = [override for override in overrides if not override.is_hydra_override()]
    values = [override for override in own if is_value(override)]
    shape = tuple(str(override.input_line) for override in overrides if override not in values)
    return Overrides(own, shape, values)


def set_value(loader: Any, override: Override, config: DictConfig) -> None:
    """Sets one value in a configuration.

    Raises:
        ConfigError: the key is below a group that is null.
    """
    with groups_required([str(override.input_line)]):
        loader._apply_overrides_to_config([override], config)


def sets_a_value(loader: Any, override: Override) -> bool:
    """Tells a plain `key=value` from a choice of group, an addition or a deletion."""
    if override.is_add() or override.is_force_add() or override.is_delete() or override.package:
        return False
    return not loader.repository.group_exists(override.key_or_group)
