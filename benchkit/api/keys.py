"""Configuration keys: what each means and may be, kept with the field of the schema that declares it."""

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from omegaconf import MISSING

from benchkit.errors import ConfigError


@dataclass(frozen=True)
class Key:
    """What a configuration key means, its unit, and the values it may take."""

    doc: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    above: float | None = None
    at_least: float | None = None
    below: float | None = None

    def allowed(self) -> str:
        """The allowed values in words: "auto or >= 1", "> 0 MiB"."""
        bounds = [("> ", self.above), (">= ", self.at_least), ("< ", self.below)]
        interval = " and ".join(f"{sign}{bound:g}" for sign, bound in bounds if bound is not None)
        if interval and self.unit:
            interval += f" {self.unit}"
        return " or ".join(part for part in ("|".join(self.choices), interval) if part)

    def accepts(self, value: Any) -> bool:
        """True where the value is one of the choices or a number within the bounds."""
        bounded = any(bound is not None for bound in (self.above, self.at_least, self.below))
        if not self.choices and not bounded:
            return True
        if isinstance(value, list):
            return bool(value) and all(self.accepts(item) for item in value)
        if isinstance(value, str):
            return value in self.choices
        if not isinstance(value, int | float) or not bounded or not math.isfinite(value):
            return False
        return (
            (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.below is None or value < self.below)
        )


def key(doc: str, **limits: Any) -> Any:
    """Declares a configuration key: a dataclass field without a value, with its meaning and its limits."""
    return field(default=MISSING, metadata={"key": Key(doc, **limits)})


def described_keys(schema: type, prefix: str = "") -> dict[str, tuple[Key, Any]]:
    """Every key below a schema, dotted, with its description and its type."""
    found: dict[str, tuple[Key, Any]] = {}
    for item in fields(schema):
        nested = nested_schema(item.type)
        if nested is None:
            found[prefix + item.name] = (item.metadata["key"], item.type)
        else:
            found |= described_keys(nested, f"{prefix}{item.name}.")
    return found


def nested_schema(annotation: Any) -> type | None:
    """The dataclass in an annotation such as `ModelConfig | None`, or None."""
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and is_dataclass(candidate):
            return candidate
    return None


def is_optional(annotation: Any) -> bool:
    """True for `ModelConfig | None`."""
    return type(None) in getattr(annotation, "__args__", ())


def check_ranges(config: Any, prefix: str = "") -> None:
    """Raises ConfigError for the first value outside its range; a None was allowed by its type already."""
    for item in fields(config):
        value = getattr(config, item.name)
        described: Key = item.metadata["key"]
        if is_dataclass(value):
            check_ranges(value, f"{prefix}{item.name}.")
        elif nested_schema(item.type) and value is None and not is_optional(item.type):
            raise ConfigError(f"{prefix}{item.name}=null: {described.doc}; choose an option of it")
        elif value is not None and not described.accepts(value):
            raise ConfigError(f"{prefix}{item.name}={value}: allowed is {described.allowed()} ({described.doc})")


def as_list(value: Any) -> list[Any]:
    """The values of a key that takes one or a list of them."""
    return list(value) if isinstance(value, list | tuple) else [value]
