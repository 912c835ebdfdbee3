"""Makes points from one that is composed already, where they differ from it in plain values."""

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from benchkit.api.keys import nested_schema, require_accepted
from benchkit.api.schema import RunConfig
from benchkit.config import hydra_internals, hydra_overrides
from benchkit.config.hydra_overrides import Override
from benchkit.errors import ConfigError

NAMES = re.compile(r"[A-Za-z_][\w.]*")
"""The names of keys and resolvers in an interpolation."""


@dataclass(frozen=True)
class Setting:
    """What an override does: the path of its key, and the value with the key's type."""

    path: list[str]
    value: Any


class Variants:
    """The points of a sweep that have the groups and keys of one point, and other values.

    Composing, converting and checking a point takes milliseconds. Here only the values of the
    overrides are converted and checked, each once.
    """

    def __init__(self, loader: Any, composed: DictConfig) -> None:
        """Takes a point.

        Args:
            loader: of Hydra.
            composed: the point as Hydra composes it, which this object changes from now on.
        """
        self._loader = loader
        self._composed = composed
        # Not checked yet: a check replaces values by what they mean beside the other keys.
        self._config: Any = OmegaConf.to_object(composed)
        self._needed = set(needed_names(OmegaConf.to_container(composed, resolve=False)))
        self._settings: dict[str | None, Setting | None] = {}

    def variant(self, values: Sequence[Override]) -> RunConfig | None:
        """Returns the point with these values; None where it must be composed as a whole.

        That is so if another key depends on one of the values, and if a value is wrong: composing
        the whole point gives the message.
        """
        config: RunConfig = copy.copy(self._config)
        for override in values:
            if override.input_line not in self._settings:
                self._settings[override.input_line] = self._setting(override)
            setting = self._settings[override.input_line]
            if setting is None:
                return None
            assign(config, setting.path, setting.value)
        try:
            config.check()
        except ConfigError:
            return None
        return config

    def _setting(self, override: Override) -> Setting | None:
        """Returns what an override does; None if it does more than to set a value that is right."""
        key = override.key_or_group
        path = key.split(".")
        if key == "suite" or any(depends_on(name, key) for name in self._needed):
            return None
        described = field_at(type(self._config), path)
        if described is None or nested_schema(described.type):
            return None
        try:
            hydra_overrides.set_value(self._loader, override, self._composed)
            value = OmegaConf.select(self._composed, key, throw_on_missing=True)
            if isinstance(value, DictConfig) or needed_names(override.value()):
                return None
            if isinstance(value, ListConfig):
                value = OmegaConf.to_object(value)
            require_accepted(described, key, value)
        except (*hydra_internals.ERRORS, ConfigError, ValueError):
            return None
        return Setting(path, value)


def needed_names(value: Any) -> list[str]:
    """Returns all names in the interpolations of plain data."""
    return [name for text in texts(value) if "${" in text for name in NAMES.findall(text)]


def texts(value: Any) -> Iterator[str]:
    """Yields all texts in plain data."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


def depends_on(name: str, key: str) -> bool:
    """Returns whether a name in an interpolation may mean a key, a part of it or its group.

    A relative name lacks the groups around it, so the last part decides.
    """
    is_within = name.startswith(f"{key}.") or key.startswith(f"{name}.")
    return is_within or name.rpartition(".")[2] == key.rpartition(".")[2]


def field_at(schema: type | None, path: Sequence[str]) -> Any:
    """Returns the field of a schema at a path; None where it has none."""
    for position, part in enumerate(path, 1):
        found = next((item for item in fields(schema or object) if item.name == part), None)
        if found is None or position == len(path):
            return found
        schema = nested_schema(found.type)
        if schema is None:
            return None
    return None


def assign(config: Any, path: Sequence[str], value: Any) -> None:
    """Sets a value in a configuration whose groups other points share, which are copied."""
    for part in path[:-1]:
        group = copy.copy(getattr(config, part))
        setattr(config, part, group)
        config = group
    setattr(config, path[-1], value)
