"""Defines configuration keys: the meaning and the range of each, kept with the schema's field."""

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import msgspec

from benchkit.errors import ConfigError

MISSING = "???"
"""OmegaConf's mark of a key that is not set. Ranks import this module, but not OmegaConf."""

SHORT_NAMES = {
    "fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32",
    "fp64": "float64", "double": "float64", "fp8": "float8_e4m3fn",
}  # fmt: skip
"""What a command line may say for element types among a key's choices."""


@dataclass(frozen=True)
class Key:
    """What a configuration key means, its unit, and the values it may take.

    Attributes:
        doc: the meaning, as help and error messages show it.
        unit: unit of the value, such as "MiB"; "" for none.
        choices: words that the value may be.
        above: exclusive lower bound of a number, or None.
        at_least: inclusive lower bound of a number, or None.
        below: exclusive upper bound of a number, or None.
        identity: whether the value belongs to a point's identity, because it changes what is
            measured.
        neutral: the value of all points from before the key existed. It does not count in their
            identity, which therefore stays as it was; None for a key without such a value.
    """

    doc: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    identity: bool = True
    neutral: Any = None

    def allowed(self) -> str:
        """Returns the allowed values in words: "auto or >= 1", "> 0 MiB"."""
        bounds = [("> ", self.above), (">= ", self.at_least), ("< ", self.below)]
        interval = " and ".join(f"{sign}{bound:g}" for sign, bound in bounds if bound is not None)
        if interval and self.unit:
            interval += f" {self.unit}"
        words = "|".join(self.choices)
        if short := [short for short, name in SHORT_NAMES.items() if name in self.choices]:
            words += f" (short: {', '.join(short)})"
        return " or ".join(part for part in (words, interval) if part)

    def accepts(self, value: Any) -> bool:
        """Returns whether a value is one of the choices or a finite number within the bounds.

        A list is accepted where it is not empty and all of its items are accepted.
        """
        bounded = any(bound is not None for bound in (self.above, self.at_least, self.below))
        if not self.choices and not bounded:
            return True
        if isinstance(value, list):
            return bool(value) and all(self.accepts(item) for item in value)
        if isinstance(value, bool):
            value = str(value).lower()
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
    """Declares a configuration key: a dataclass field without a value.

    Args:
        doc: what the key means.
        **limits: the other attributes of Key.
    """
    return field(default=MISSING, metadata={"key": Key(doc, **limits)})


def described_keys(schema: type, prefix: str = "") -> dict[str, tuple[Key, Any]]:
    """Returns every key below a schema by its dotted name, with its description and its type."""
    found: dict[str, tuple[Key, Any]] = {}
    for item in fields(schema):
        nested = nested_schema(item.type)
        if nested is None:
            found[prefix + item.name] = (item.metadata["key"], item.type)
        else:
            found |= described_keys(nested, f"{prefix}{item.name}.")
    return found


def nested_schema(annotation: Any) -> type | None:
    """Returns the dataclass in an annotation such as `ModelConfig | None`, or None without one."""
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(candidate, type) and is_dataclass(candidate):
            return candidate
    return None


def is_optional(annotation: Any) -> bool:
    """Returns whether an annotation allows None, such as `ModelConfig | None`."""
    return type(None) in getattr(annotation, "__args__", ())


def check_ranges(config: Any, prefix: str = "") -> None:
    """Raises ConfigError for the first value outside its range, or one that a record cannot hold.

    A value of None passes, because the types of the schema have been checked before. Only a group
    that must be chosen is refused.
    """
    for item in fields(config):
        value = getattr(config, item.name)
        described: Key = item.metadata["key"]
        name = prefix + item.name
        if is_dataclass(value):
            check_ranges(value, f"{name}.")
        elif nested_schema(item.type) and value is None and not is_optional(item.type):
            raise ConfigError(f"{name}=null: {described.doc}; choose an option of it")
        else:
            require_accepted(item, name, value)


def require_accepted(item: Any, name: str, value: Any) -> None:
    """Raises ConfigError for a value outside its range, or one that a record cannot hold.

    Args:
        item: field of the schema.
        name: dotted name of the key.
        value: of it.
    """
    described: Key = item.metadata["key"]
    if value is not None and not described.accepts(value):
        raise ConfigError(f"{name}={value}: allowed is {described.allowed()} ({described.doc})")
    require_storable(name, value)


def require_storable(name: str, value: Any) -> None:
    """Raises ConfigError for a value without its like in JSON, such as a text that is not UTF-8."""
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}={value!a}: a record cannot hold it ({error})") from None


def as_list(value: Any) -> list[Any]:
    """Returns the values of a key that takes one value or a list of values."""
    return list(value) if isinstance(value, list | tuple) else [value]
