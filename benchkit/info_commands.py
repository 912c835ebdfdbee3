"""Commands that print a text: --version, --help and list."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from benchkit.api.keys import described_keys
from benchkit.api.registry import load_suites
from benchkit.config import compose, help_pages
from benchkit.config.command_line import COMMANDS, HELP, TAKING_VALUES, VERSION, did_you_mean
from benchkit.config.folders import config_folders
from benchkit.errors import ConfigError
from benchkit.study import describe
from benchkit.sweep.check import has_torch
from benchkit.version import __version__

USAGE = {
    "import-config": """python -m benchkit import-config FILE.json

Prints the command for a configuration of DDLB, and one line for each thing in it that has no
counterpart.""",
    "list": """python -m benchkit list [GROUP …] [--config-dir DIR]

Lists the options of each group, such as suites, sweeps and studies; of all groups by default.""",
    "status": """python -m benchkit status [DIR]

Tells how far the sweep in a folder is that runs elsewhere, in the queue of Slurm, or ran; without a
folder, the one in outputs/latest. Exit code: 1 if a point has failed.""",
}
"""The help of commands that do not have their own."""
OTHERS = tuple(name for name in COMMANDS if name not in HELP)
WITH_VALUES = (*TAKING_VALUES, "--resume", "--retry")
Options = Mapping[str, Sequence[Path]]


def answer(arguments: Sequence[str], folders: Sequence[Path]) -> str:
    """Return the text that a command line requests instead of a sweep; "" for a sweep.

    Raise ConfigError for help on an unknown topic.
    """
    first = arguments[0] if arguments else ""
    if first in OTHERS:
        return USAGE.get(first, "") if asks_for_help(arguments) else ""
    if set(VERSION) & set(arguments):
        torch = f"torch {version('torch')}" if has_torch() else "no torch"
        return f"benchkit {__version__}, {torch}, Hydra {version('hydra-core')}"
    if not asks_for_help(arguments):
        return ""
    options = help_pages.options_in(folders)
    texts = [help_on_topic(word, options, folders) for word in topics(arguments, options)]
    return "\n\n".join(texts) or help_pages.help_text(folders)


def command_first(arguments: Sequence[str]) -> list[str]:
    """Return a command line with `compare --help` for `--help compare`."""
    commands = [word for word in arguments if word in OTHERS]
    return [commands[0], "--help"] if commands and asks_for_help(arguments) else list(arguments)


def asks_for_help(arguments: Sequence[str]) -> bool:
    return bool(set(HELP) & set(arguments))


def list_options(arguments: Sequence[str]) -> int:
    options = help_pages.options_in(config_folders(arguments))
    groups = topics(arguments, options)
    for group in groups:
        if group not in options:
            raise ConfigError(f"list {group}: no such group; allowed are {', '.join(options)}")
    print(help_pages.format_options({group: options[group] for group in groups or options}))
    return 0


def topics(arguments: Sequence[str], options: Options) -> list[str]:
    """Return the words of a command line that may be topics of help.

    Flags, their values and overrides of keys are not.
    """
    words, previous = [], ""
    for word in arguments:
        name, is_set, _ = word.lstrip("+").partition("=")
        sets_key = is_set and name not in options
        if not (word.startswith(("-", "~")) or word in HELP or previous in WITH_VALUES or sets_key):
            words.append(word.lstrip("+"))
        previous = word
    return words


def help_on_topic(word: str, options: Options, folders: Sequence[Path]) -> str:
    """Return the help on an option, a group or a key; raise ConfigError for any other."""
    group, is_set, names = word.partition("=")
    if not is_set and word in options:
        return help_pages.format_options({word: options[word]})
    if not is_set and (row := help_on_key(word)):
        return row
    texts, suites = [], {path.stem for path in options["suite"]}
    for name in names.split(",") if is_set else [word]:
        groups = [group] if is_set else ["suite"] if name in suites else options
        matches = [
            (option_group, path)
            for option_group in groups
            for path in options[option_group]
            if path.stem == name
        ]
        if not matches:
            what = f"no such {group}" if is_set else "no such suite, option, key or command"
            raise ConfigError(f"--help {word}: {what}; {did_you_mean(name, options)}")
        texts += [help_on_option(option_group, path, folders) for option_group, path in matches]
    return "\n\n".join(texts)


def help_on_option(group: str, path: Path, folders: Sequence[Path]) -> str:
    if group == "suite":
        return help_pages.suite_help(path, compose.values_of(path.stem, folders))
    return describe(path) if group == "study" else help_pages.option_help(group, path)


def help_on_key(name: str) -> str:
    """Return the help on a key, for each suite that has it; "" for an unknown key."""
    suites_of_row: dict[str, list[str]] = {}
    for suite in load_suites().values():
        if description := described_keys(suite.config).get(name):
            row = help_pages.key_rows({name: description[0]})
            suites_of_row.setdefault(row, []).append(suite.name)
    return "\n\n".join(
        f"A key of {'every suite' if len(names) == len(load_suites()) else ', '.join(names)}\n{row}"
        for row, names in suites_of_row.items()
    )
