"""What benchkit says about configuration keys: the text of --help, and one line per error."""

import difflib
import re
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchkit.api.keys import Key, described_keys
from benchkit.api.registry import load_suites
from benchkit.api.schema import RunConfig

UNIONS = (typing.Union, types.UnionType)
NO_SUCH_OPTION = re.compile(
    r"Could not find '(.+)/(.+?)' Available options in '.*?': (.*?) Config search path"
)
NULL_GROUP = re.compile("Config group override must be a string")
NO_SUCH_KEY = re.compile(r"Could not override '(.+?)'\.(?: To append to your config use \+(.+))?")
WRONG_VALUE = re.compile(r"Error merging override (\S+)")
NOT_IN_SCHEMA = re.compile(r"In '(.+?)': .*?Key '(.+?)' not in")
ADVICE = re.compile(r" See https://hydra\.cc/\S+ for details$")
HELP = """benchkit: distributed deep-learning benchmarks from one command

  python -m benchkit +suite=allreduce data_size=100                one point
  python -m benchkit +suite=allreduce -m data_size=1,10,100,1000   a sweep: commas where values vary
  python -m benchkit sweep=gloo_cpu                                a whole study by name
  python -m analysis outputs/latest                                tables, plots and text of it
  python -m benchkit selftest                                      what this machine can tell
  python -m benchkit compare ARM ARM …                             is one faster? (compare --help)

Suites and their keys (key=value)
{suites}

Keys of every run
{shared}

Groups, one option each (group=option; +suite=option)
{groups}

Flags such as --config-dir DIR (more YAML, of your own) come before the overrides; \
--cfg job prints the composed
configuration; --hydra-help lists all flags. Exit code: 0 all is well, \
1 a point failed or none was measured,
2 the configuration is wrong, 128 + N ended by signal N (130: Ctrl-C)."""


def suite_list() -> str:
    """Returns one line per suite: its name, what it measures, its keys with their units."""
    lines = []
    for suite in load_suites().values():
        names = [
            f"{name} [{key.unit}]" if key.unit else name
            for name, key in own_keys(suite.config).items()
        ]
        lines.append(f"  {suite.name:<12} {suite.summary} Keys: {', '.join(names)}")
    return "\n".join(lines)


def own_keys(schema: type[RunConfig]) -> dict[str, Key]:
    """Returns the keys that a suite adds to those of every run."""
    shared = described_keys(RunConfig)
    return {name: key for name, (key, _) in described_keys(schema).items() if name not in shared}


def keys_of_suites() -> set[str]:
    """Returns the keys that only some suites have, without the part after the first dot."""
    return {
        name.split(".")[0] for suite in load_suites().values() for name in own_keys(suite.config)
    }


def key_rows(keys: dict[str, Key]) -> str:
    """Returns one line per key: its name, what it means, and its allowed values."""
    lines = []
    for name, key in keys.items():
        allowed = f"  [{key.allowed()}]" if key.allowed() else ""
        lines.append(f"  {name:<27} {key.doc}{allowed}")
    return "\n".join(lines)


def help_text(folders: Iterable[Path]) -> str:
    """Returns the text of --help.

    It is made from the schemas and the folders of YAML, so that it cannot lag behind them.

    Args:
        folders: with one folder of YAML files per group.
    """
    suites = [
        f"  +suite={suite.name}   {suite.summary}\n{key_rows(own_keys(suite.config))}"
        for suite in load_suites().values()
    ]
    shared = {name: key for name, (key, _) in described_keys(RunConfig).items() if name != "suite"}
    options: dict[str, set[str]] = {}
    for folder in folders:
        for path in folder.glob("*/*.yaml"):
            options.setdefault(path.parent.name, set()).add(path.stem)
    groups = [f"  {group:<27} {', '.join(sorted(options[group]))}" for group in sorted(options)]
    return HELP.format(
        suites="\n\n".join(suites), shared=key_rows(shared), groups="\n".join(groups)
    )


def explain(error: Exception, arguments: Sequence[str]) -> str:
    """Explains in one line the error that a command line raises in Hydra or OmegaConf.

    The line has the key, the given value, and what is allowed.
    """
    text = " ".join(str(error).split())
    if found := NO_SUCH_OPTION.search(text):
        group, name, options = found.groups()
        available = ", ".join(sorted(options.split()))
        return f"{group}={name}: no such {group}; available: {available}"
    if NULL_GROUP.search(text):
        return (
            "a group cannot be null here; choose one of its options "
            "(`python -m benchkit --help` lists them)"
        )
    if found := NO_SUCH_KEY.search(text):
        return set_before_suite(found[2] or "", arguments) or unknown_key(found[1])
    if found := WRONG_VALUE.search(text):
        return wrong_type(found[1], " ".join(str(error.__cause__).split()))
    if found := NOT_IN_SCHEMA.search(text):
        return f"conf {found[1]}: {unknown_key(found[2])}"
    return ADVICE.sub("", text)


def set_before_suite(override: str, arguments: Sequence[str]) -> str:
    """Explains one value for a suite's own key where several suites are chosen; "" otherwise.

    Hydra sets what does not vary before the sweep chooses a suite, when no such key exists yet.
    """
    suites = [given for given in arguments if re.match(r"\+suite=.*[,(]", given)]
    name, _, value = override.partition("=")
    if not suites or override not in arguments or name.split(".")[0] not in keys_of_suites():
        return ""
    return (
        f"{override}: a suite's own key is not set once for several suites ({suites[0]}); "
        f"type one suite per command, or {name}=choice({value})"
    )


def unknown_key(name: str) -> str:
    """Explains a key that no schema has, and suggests the nearest one, in one line."""
    if name == "suite":
        return f"suite: takes a plus: +suite={'|'.join(load_suites())}"
    if name == "backend.env":
        return "backend.env: takes variables one by one: +backend.env.NAME=value"
    if explained := explained_by_suites(name):
        return explained
    keys: set[str] = set()
    having = []
    for suite in load_suites().values():
        described = described_keys(suite.config)
        keys |= described.keys()
        if name in described:
            having.append(suite.name)
    if having:
        return f"{name}: a key of suite {' and '.join(having)}, which is not chosen"
    groups = {key.split(".")[0] for key in keys if "." in key} | {"sweep", "launcher"}
    near = difflib.get_close_matches(name, keys | groups, n=1)
    hint = f"did you mean {near[0]}?" if near else "`python -m benchkit --help` lists all"
    return f"{name}: no such key; {hint}"


def explained_by_suites(name: str) -> str:
    """Returns what suites say about an unknown key below one of their own keys; "" if nothing."""
    parent, _, rest = name.partition(".")
    suite_of_line = {}
    for suite in load_suites().values():
        line = suite.config.unknown(parent, rest)
        if line:
            suite_of_line[line] = suite.name
    if len(suite_of_line) == 1:
        return next(iter(suite_of_line))
    return "; ".join(f"{line} (suite {suite})" for line, suite in suite_of_line.items())


def wrong_type(override: str, reason: str) -> str:
    """Explains, in one line, a value that its key's type refuses."""
    name = override.split("=")[0].lstrip("+~")
    described: dict[str, tuple[Key, Any]] = {}
    for suite in load_suites().values():
        described |= described_keys(suite.config)
    if name not in described:
        return f"{override}: {reason}"
    key, annotation = described[name]
    is_union = typing.get_origin(annotation) in UNIONS
    parts = typing.get_args(annotation) if is_union else (annotation,)
    type_name = " or ".join("null" if part is type(None) else part.__name__ for part in parts)
    allowed = f", {key.allowed()}" if key.allowed() else ""
    return f"{override}: expected {type_name}{allowed} ({key.doc})"
