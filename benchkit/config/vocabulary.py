"""The words of a command line beside values, and those that a mistyped one may have meant."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchkit.api.keys import described_keys
from benchkit.api.registry import load_suites

COMMANDS = ("compare", "help", "import-config", "list", "selftest", "status")
"""What may stand in the place of a sweep, as the first word."""
HELP = ("--help", "-h", "help")
VERSION = ("--version", "-V")
OWN_FLAGS = ("--dry-run", "--resume", "--retry", "--force", *VERSION)
"""Flags that Hydra does not get to see."""
TAKING_VALUES = ("--config-dir", "-cd", "--cfg", "-c", "--package", "-p", "--info", "-i")
FLAGS = (
    *TAKING_VALUES, "--help", "-h", "--hydra-help", "--resolve", "--run", "-r", "--multirun", "-m",
    "--shell-completion", "-sc", "--experimental-rerun",
)  # fmt: skip
"""Flags of Hydra that have a meaning here."""
LONG_FLAGS = tuple(flag for flag in (*FLAGS, *OWN_FLAGS) if flag.startswith("--"))


def all_keys() -> dict[str, str]:
    """Returns the unit of each key of all suites, "" for those without one."""
    keys = {}
    for suite in load_suites().values():
        for name, (key, annotation) in described_keys(suite.config).items():
            keys[name] = "count" if annotation is int else key.unit
    return keys


def beside_overrides(line: str) -> list[str]:
    """Returns the flags and commands that may complete the last word of a line."""
    _, *before, last = line.split(" ")
    words = LONG_FLAGS if last.startswith("-") else () if before else COMMANDS
    return [word for word in words if word.startswith(last)]


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """Returns the name that a mistyped word is most like, or all names that hold it.

    A word of one or two letters is too short to be like another one.
    """
    known = list(names)
    if len(word) < 3:
        return [word] if word in known else []
    near = difflib.get_close_matches(word, known, n=1)
    return near or [name for name in known if word in name]


def did_you_mean(
    word: str, options: Mapping[str, Sequence[Path]], otherwise: str = "see --help"
) -> str:
    """Returns what a lone word may have meant.

    Args:
        word: as typed, without dashes in front.
        options: files of the options of each group.
        otherwise: the advice if nothing is like the word.
    """
    meant = {key: f"{key}=…" for key in all_keys()}
    meant |= {path.stem: f"{group}={path.stem}" for group in options for path in options[group]}
    meant |= {path.stem: f"+suite={path.stem}" for path in options.get("suite", ())}
    meant |= {flag.lstrip("-"): flag for flag in LONG_FLAGS}
    meant |= {name: f"`python -m benchkit {name}`" for name in COMMANDS}
    near = [meant[name] for name in nearest(word, meant)]
    return f"did you mean {' or '.join(near[:3])}?" if near else otherwise
