"""Reads a command line before Hydra does: what is no override, and values as people type them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchkit.api.keys import SHORT_NAMES
from benchkit.api.message_size import doubling
from benchkit.config.vocabulary import FLAGS, LONG_FLAGS, TAKING_VALUES, all_keys, did_you_mean
from benchkit.errors import ConfigError

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)")
WHOLE = re.compile(r"\d+(?:\.\d+)?[eE]\+?\d+")
"""A number in scientific notation, which may be whole."""


def understood(arguments: Sequence[str], options: Mapping[str, Sequence[Path]]) -> list[str]:
    """Returns a command line with values as the schema has them: `timeout_s=600` for `10m`.

    Args:
        arguments: as typed.
        options: files of the options of each group.

    Raises:
        ConfigError: an argument is neither an override nor a flag.
    """
    before = ""
    for argument in arguments:
        if before not in TAKING_VALUES:
            require_word(argument, before, options)
        before = argument
    return [spelled_out(argument) for argument in arguments]


def require_word(argument: str, before: str, options: Mapping[str, Sequence[Path]]) -> None:
    """Raises ConfigError for an argument that is neither an override nor a flag.

    Args:
        argument: as typed.
        before: the one before it, "" if it is the first.
        options: files of the options of each group.
    """
    name, is_set, value = argument.partition("=")
    if argument.startswith("-"):
        if name in FLAGS:
            return
        bare = name.lstrip("-")
        if is_set or bare in all_keys():
            raise ConfigError(f"{argument}: overrides have no dashes: {bare}={value or '…'}")
        advice = did_you_mean(bare, options, f"allowed are {', '.join(LONG_FLAGS)}")
        raise ConfigError(f"{argument}: no such flag; {advice}")
    if name == "hydra.run.dir":
        raise ConfigError(f"{argument}: every run is a sweep; type hydra.sweep.dir={value}")
    if is_set or argument.startswith("~"):
        return
    raise ConfigError(f"{argument}: allowed is key=value; {advice_on(argument, before, options)}")


def advice_on(word: str, before: str, options: Mapping[str, Sequence[Path]]) -> str:
    """Returns what somebody who typed a lone word may have meant."""
    key, is_set, value = before.partition("=")
    if re.fullmatch(r"[\d.]+\w*", word) and is_set:
        return f"several values of a key have commas and no spaces: {key}={value},{word}"
    return did_you_mean(word, options)


def spelled_out(argument: str) -> str:
    """Returns an override whose values are in the words and units of the schema.

    Durations become seconds, whole numbers in scientific notation become digits, short names of
    element types become torch's, and ranges of sizes become all powers of two between: a sweep, or
    in brackets the items of a list. Values with quotes, braces or functions stay as they are.
    """
    name, is_set, value = argument.partition("=")
    key = name.lstrip("+")
    if not is_set or re.search(r"[\"'(){}$\\]", value):
        return argument
    words = re.sub(r"[^,\[\]]+", lambda found: spelled_out_value(key, found[0]), value)
    return f"{name}={words}"


def spelled_out_value(key: str, value: str) -> str:
    """Returns a value of a key in the words and units of the schema.

    A range of sizes becomes several, with commas between them.
    """
    text = value.strip()
    unit = all_keys().get(key)
    if key.rpartition(".")[2] in ("dtype", "dtypes") and text in SHORT_NAMES:
        return SHORT_NAMES[text]
    if unit == "MiB" and key.endswith(("size", "sizes")) and (sizes := doubling(text)):
        return ",".join(sizes)
    if unit == "s" and (found := DURATION.fullmatch(text)):
        return f"{float(found[1]) * SECONDS[found[2]]:g}"
    if unit == "count" and WHOLE.fullmatch(text) and float(text).is_integer():
        return str(int(float(text)))
    return value
