"""Writes Python values as arguments in the grammar of Hydra's overrides; imports no Hydra."""

import re
from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import Any

from benchkit.errors import ConfigError

KEY = re.compile(r"\+{0,2}[A-Za-z_$][\w$-]*([./][\w$-]+)*(@[\w$.-]*)?", re.ASCII)
"""A key of the configuration or a group of options; with + or ++ one that is added."""
WORD = re.compile(r"[\w./+-]+", re.ASCII)
"""Text that needs no quotes, unless it reads as a number or as one of LITERALS."""
LITERALS = ("null", "true", "false")
ALLOWED = (
    "None, a bool, a number, text, a path, a tuple, a mapping, or a list of these to sweep over"
)


def override(key: str, value: Any) -> str:
    """Writes one override.

    Args:
        key: such as "data_size", "measure.max_seconds" or "+backend.env.NAME".
        value: of the key. A list, or anything else that can be iterated over, holds the values of a
            sweep. A tuple, and a list within a list, is one value with several items.

    Raises:
        ConfigError: the key or the value cannot be written.
    """
    if not KEY.fullmatch(key):
        raise ConfigError(f"{key!r}: allowed are names of keys, such as 'measure.max_seconds'")
    if not is_sweep(value):
        return f"{key}={element(key, value)}"
    values = [element(key, each) for each in value]
    if not values:
        raise ConfigError(f"{key}: an empty list sweeps over nothing; allowed are values in it")
    return f"{key}={','.join(values)}"


def is_sweep(value: Any) -> bool:
    """Returns whether a value holds the values of a sweep."""
    single = isinstance(value, str | bytes | tuple | Mapping | set | frozenset)
    has_items = isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0
    return has_items and not single


def element(key: str, value: Any) -> str:
    """Writes a value that is not swept over.

    Args:
        key: of the value, for messages.
        value: of any type that ALLOWED names; numbers may be NumPy's.

    Raises:
        ConfigError: the value is of another type.
    """
    if hasattr(value, "ndim") and value.ndim == 0:
        value = value.item()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return value if is_word(value) else quoted(value)
    if isinstance(value, PathLike) and isinstance(path := fspath(value), str):
        return quoted(path)
    if isinstance(value, Mapping):
        return "{" + ",".join(item(key, *each) for each in value.items()) + "}"
    if isinstance(value, tuple) or is_sweep(value):
        return "[" + ",".join(element(key, each) for each in value) + "]"
    raise ConfigError(f"{key}={value!r:.60}: {type(value).__name__}; allowed is {ALLOWED}")


def item(key: str, name: Any, value: Any) -> str:
    """Writes an item of a mapping."""
    if not isinstance(name, str) or not is_word(name):
        raise ConfigError(f"{key}: {name!r:.60}: allowed are names of letters, digits and ./+-")
    return f"{name}:{element(key, value)}"


def is_word(text: str) -> bool:
    """Returns whether text needs no quotes to be read as itself."""
    if not WORD.fullmatch(text) or text.lower() in LITERALS:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def quoted(text: str) -> str:
    r"""Quotes text so that Hydra and OmegaConf read it as it is, interpolations too.

    OmegaConf takes `\${` for text and not for an interpolation, and a doubled backslash before it
    for one. Hydra takes backslashes literally, except before a quote.
    """
    literal = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|\Z)", double_backslashes, literal) + "'"


def double_backslashes(found: re.Match[str]) -> str:
    backslashes, quote = found.groups()
    return backslashes * 2 + ("\\'" if quote else "")
