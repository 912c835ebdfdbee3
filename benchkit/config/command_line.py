"""The command line: checked and normalized before Hydra, and written in Hydra's grammar."""

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from benchkit.api.keys import SHORT_NAMES, described_keys
from benchkit.api.registry import load_suites
from benchkit.api.sizes import doubled_sizes
from benchkit.errors import ConfigError

COMMANDS = ("compare", "help", "import-config", "list", "selftest", "status")
"""First words that run a command instead of a sweep."""
HELP = ("--help", "-h", "help")
VERSION = ("--version", "-V")
OWN_FLAGS = ("--dry-run", "--resume", "--retry", "--force", *VERSION)
"""Flags that are not passed to Hydra."""
TAKING_VALUES = ("--config-dir", "-cd", "--cfg", "-c", "--package", "-p", "--info", "-i")
FLAGS = (
    *TAKING_VALUES, "--help", "-h", "--hydra-help", "--resolve", "--run", "-r", "--multirun", "-m",
    "--shell-completion", "-sc", "--experimental-rerun",
)  # fmt: skip
LONG_FLAGS = tuple(flag for flag in (*FLAGS, *OWN_FLAGS) if flag.startswith("--"))


def all_keys() -> dict[str, str]:
    """Return the unit of each key of all suites, "" for those without one."""
    keys = {}
    for suite in load_suites().values():
        for name, (key, annotation) in described_keys(suite.config).items():
            keys[name] = "count" if annotation is int else key.unit
    return keys


def complete_words(line: str) -> list[str]:
    """Return the flags or commands that complete the last word of a line of the shell."""
    _, *before, last = line.split(" ")
    words = LONG_FLAGS if last.startswith("-") else () if before else COMMANDS
    return [word for word in words if word.startswith(last)]


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """Return the name nearest to a mistyped word, or all names that contain it.

    A word of one or two letters is too short to have a nearest one.
    """
    candidates = list(names)
    if len(word) < 3:
        return [word] if word in candidates else []
    near = difflib.get_close_matches(word, candidates, n=1)
    return near or [name for name in candidates if word in name]


def did_you_mean(
    word: str, options: Mapping[str, Sequence[Path]], otherwise: str = "see --help"
) -> str:
    """Return a suggestion for a mistyped word, without dashes in front."""
    meant = {key: f"{key}=…" for key in all_keys()}
    meant |= {path.stem: f"{group}={path.stem}" for group in options for path in options[group]}
    meant |= {path.stem: f"+suite={path.stem}" for path in options.get("suite", ())}
    meant |= {flag.lstrip("-"): flag for flag in LONG_FLAGS}
    meant |= {name: f"`python -m benchkit {name}`" for name in COMMANDS}
    near = [meant[name] for name in nearest(word, meant)]
    return f"did you mean {' or '.join(near[:3])}?" if near else otherwise


SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)")
WHOLE = re.compile(r"\d+(?:\.\d+)?[eE]\+?\d+")
"""A number in scientific notation, which may be whole."""


def normalize_arguments(
    arguments: Sequence[str], options: Mapping[str, Sequence[Path]]
) -> list[str]:
    """Return a command line with values in the schema's units: `timeout_s=600` for `10m`.

    Raise ConfigError for an argument that is neither an override nor a flag.
    """
    previous = ""
    for argument in arguments:
        if previous not in TAKING_VALUES:
            require_word(argument, previous, options)
        previous = argument
    return [normalize_override(argument) for argument in arguments]


def require_values(arguments: Sequence[str]) -> None:
    """Raise ConfigError for a flag without its value, which would take the next word for it."""
    for flag, value in itertools.pairwise([*arguments, "-"]):
        if flag in TAKING_VALUES and value.startswith("-"):
            raise ConfigError(f"{flag}: needs a value behind it")


def require_word(argument: str, before: str, options: Mapping[str, Sequence[Path]]) -> None:
    """Raise ConfigError for an argument that is neither an override nor a flag."""
    name, is_set, value = argument.partition("=")
    if argument.startswith("-"):
        if name in FLAGS:
            return
        bare = name.lstrip("-")
        if is_set or bare in all_keys():
            raise ConfigError(f"{argument}: overrides have no dashes: {bare}={value or '…'}")
        advice = did_you_mean(bare, options, f"allowed are {', '.join(LONG_FLAGS)}")
        raise ConfigError(f"{argument}: no such flag; {advice}")
    if name.lstrip("+") == "hydra.mode":
        raise ConfigError(f"{argument}: every run is a sweep; leave it out")
    if name == "hydra.run.dir":
        raise ConfigError(f"{argument}: every run is a sweep; type hydra.sweep.dir={value}")
    if value.startswith("[") and (group := options.get(name.lstrip("+"))):
        allowed = ", ".join(path.stem for path in group)
        raise ConfigError(f"{argument}: allowed are {allowed}, or several without brackets")
    if is_set or argument.startswith("~"):
        return
    raise ConfigError(f"{argument}: allowed is key=value; {advice_on(argument, before, options)}")


def advice_on(word: str, before: str, options: Mapping[str, Sequence[Path]]) -> str:
    key, is_set, value = before.partition("=")
    if re.fullmatch(r"[\d.]+\w*", word) and is_set:
        return f"several values of a key have commas and no spaces: {key}={value},{word}"
    return did_you_mean(word, options)


def normalize_override(argument: str) -> str:
    """Return an override whose values are in the words and units of the schema.

    Durations become seconds, whole numbers in scientific notation become digits, short names of
    element types become torch's, and ranges of sizes become all powers of two between: a sweep, or
    in brackets the items of a list. Values with quotes, braces or functions stay as they are.
    """
    name, is_set, value = argument.partition("=")
    key = name.lstrip("+")
    if not is_set or re.search(r"[\"'(){}$\\]", value):
        return argument
    if key.startswith(VARIABLE):
        return variable_override(argument, name, value)
    normalized = re.sub(r"[^,\[\]]+", lambda match: normalize_value(key, match[0]), value)
    return f"{name}={normalized}"


VARIABLE = "backend.env."


def variable_override(argument: str, name: str, value: str) -> str:
    """Return the override of a variable, whose value is text even where it reads as a number."""
    if "," in value:
        single, sweep = f"{name}='\"{value}\"'", f"{name}='choice({value})'"
        raise ConfigError(f"{argument}: a comma; type {single} for one value, {sweep} for a sweep")
    return argument if is_word(value) else f"{name}={quote_text(value)}"


def normalize_value(key: str, value: str) -> str:
    """Return a value, or several of a range, in the words and units of the schema."""
    text = value.strip()
    unit = all_keys().get(key)
    if key.rpartition(".")[2] in ("dtype", "dtypes") and text in SHORT_NAMES:
        return SHORT_NAMES[text]
    if unit == "MiB" and key.endswith(("size", "sizes")) and (sizes := doubled_sizes(text)):
        return ",".join(sizes)
    if unit == "s" and (match := DURATION.fullmatch(text)):
        return f"{float(match[1]) * SECONDS[match[2]]:g}"
    if unit == "count" and WHOLE.fullmatch(text) and float(text).is_integer():
        return str(int(float(text)))
    return value


KEY = re.compile(r"\+{0,2}[A-Za-z_$][\w$-]*([./][\w$-]+)*(@[\w$.-]*)?", re.ASCII)
"""A key of the configuration or a group of options; with + or ++ one that is added."""
WORD = re.compile(r"[\w./+-]+", re.ASCII)
"""Text that needs no quotes, unless it reads as a number or as one of LITERALS."""
LITERALS = ("null", "true", "false")
ALLOWED = (
    "None, a bool, a number, text, a path, a tuple, a mapping, or a list of these to sweep over"
)


def override(key: str, value: Any) -> str:
    """Write one override; raise ConfigError where the key or the value cannot be written.

    A list, or any other iterable, holds the values of a sweep. A tuple, and a
    list within a list, is one value with several items.
    """
    if not KEY.fullmatch(key):
        raise ConfigError(f"{key!r}: allowed are names of keys, such as 'measure.max_seconds'")
    if not is_sweep(value):
        return f"{key}={format_value(key, value)}"
    values = [format_value(key, part) for part in value]
    if not values:
        raise ConfigError(f"{key}: an empty list sweeps over nothing; allowed are values in it")
    return f"{key}={','.join(values)}"


def is_sweep(value: Any) -> bool:
    single = isinstance(value, str | bytes | tuple | Mapping | set | frozenset)
    has_items = isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0
    return has_items and not single


def format_value(key: str, value: Any) -> str:
    """Write a value that is not swept over; raise ConfigError for a type outside ALLOWED."""
    if hasattr(value, "ndim") and value.ndim == 0:
        value = value.item()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return value if is_word(value) else quote_text(value)
    if isinstance(value, PathLike) and isinstance(path := fspath(value), str):
        return quote_text(path)
    if isinstance(value, Mapping):
        return "{" + ",".join(format_item(key, *pair) for pair in value.items()) + "}"
    if isinstance(value, tuple) or is_sweep(value):
        return "[" + ",".join(format_value(key, part) for part in value) + "]"
    raise ConfigError(f"{key}={value!r:.60}: {type(value).__name__}; allowed is {ALLOWED}")


def format_item(key: str, name: Any, value: Any) -> str:
    if not isinstance(name, str) or not is_word(name):
        raise ConfigError(f"{key}: {name!r:.60}: allowed are names of letters, digits and ./+-")
    return f"{name}:{format_value(key, value)}"


def is_word(text: str) -> bool:
    if not WORD.fullmatch(text) or text.lower() in LITERALS:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def quote_text(text: str) -> str:
    r"""Quote text so that Hydra and OmegaConf read it literally, including interpolations.

    OmegaConf reads `\${` as text and not as an interpolation, and a doubled backslash before it as
    one. Hydra reads backslashes literally, except before a quote.
    """
    literal = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|\Z)", double_backslashes, literal) + "'"


def double_backslashes(match: re.Match[str]) -> str:
    backslashes, quote = match.groups()
    return backslashes * 2 + ("\\'" if quote else "")
