"""Explains in one line what is wrong with a configuration."""

import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from benchkit.api.keys import Key, described_keys
from benchkit.api.registry import installed_plugins, load_suites
from benchkit.config import hydra_internals
from benchkit.config.command_line import nearest
from benchkit.config.help_pages import keys_of_suites

UNIONS = (typing.Union, types.UnionType)
NO_SUCH_OPTION = re.compile(
    r"Could not find '(.+)/(.*?)' Available options in '.*?': (.*?) Config search path"
)
NULL_GROUP = re.compile("Config group override must be a string")
NO_SUCH_KEY = re.compile(r"Could not override '(.+?)'\.(?: To append to your config use \+(.+))?")
WRONG_VALUE = re.compile(r"Error merging override ([^\s=]+='[^']*'|\S+)")
NOT_IN_SCHEMA = re.compile(r"In '(.+?)': .*?Key '(.+?)' not in")
MISSING_GROUP = re.compile("has missing mandatory value: (backend|hardware|measure) ")
NAMES_ELSEWHERE = {
    "hardware": ("device",),
    "cuda": ("gpu", "gpus"),
    "world_size": ("nranks", "num_processes", "nproc_per_node", "processes", "gpus", "ngpus"),
    "data_size": ("size",),
    "measure.max_iterations": (
        "iterations", "iters", "num_iters", "num_iterations", "num_steps", "steps", "samples",
    ),
    "measure.warmup_iterations": ("warmup", "warmups", "num_warmup", "num_warmups"),
}  # fmt: skip
"""Names of benchkit's keys and options in other programs."""
KEY = r"[\w.+~/@:-]+"
"""A key in Hydra's grammar, with the signs that may precede it."""


def explain(error: Exception, arguments: Sequence[str]) -> str:
    """Explain in one line the error that a command line raises in Hydra or OmegaConf.

    The line has the key, the given value, and what is allowed.
    """
    text = " ".join(str(error).split())
    if match := NO_SUCH_OPTION.search(text):
        group, name, options = match.groups()
        if group in ("suite", "schema/suite") and name in installed_plugins().left_out:
            return installed_plugins().left_out[name]
        near = translate_name(name, options.split()) or nearest(name, options.split())
        meant = f"did you mean {' or '.join(near[:3])}? " if near else ""
        available = ", ".join(sorted(options.split()))
        return f"{group}={name}: no such {group}; {meant}available: {available}"
    if NULL_GROUP.search(text):
        return (
            "a group cannot be null here; choose one of its options "
            "(`python -m benchkit --help` lists them)"
        )
    if match := NO_SUCH_KEY.search(text):
        return explain_suite_key(match[2] or "", arguments) or unknown_key(match[1], arguments)
    if match := WRONG_VALUE.search(text):
        return explain_type(match[1], error.__cause__, arguments)
    if match := MISSING_GROUP.search(text):
        return f"~{match[1]}: it cannot be taken away; choose one of its options, {match[1]}=…"
    if match := NOT_IN_SCHEMA.search(text):
        return f"conf {match[1]}: {unknown_key(match[2])}"
    override = getattr(error, "override", None)
    return explain_syntax(override, arguments) if override else text


def explain_syntax(override: str, arguments: Sequence[str]) -> str:
    name, _, value = override.partition("=")
    if not re.fullmatch(KEY, name, re.ASCII):
        return unknown_key(name, arguments)
    for opening, closing in ("[]", "{}", "()"):
        if value.count(opening) != value.count(closing):
            return f"{override}: {opening} and {closing} do not match"
    if value.count("'") % 2 or value.count('"') % 2:
        return f"{override}: a quote is not closed"
    quoted = value.replace("'", "\\'")
    return (
        f"{override}: a value with special characters needs quotes, and the shell's around them: "
        f"\"{name}='{quoted}'\""
    )


def explain_suite_key(override: str, arguments: Sequence[str]) -> str:
    """Explain one value for a suite's own key if several suites are chosen; "" otherwise.

    Hydra sets values that do not vary before the sweep chooses a suite: the key does not exist yet.
    """
    suites = [word for word in arguments if re.match(r"\+suite=.*[,(]", word)]
    name, _, value = override.partition("=")
    if not suites or override not in arguments or name.split(".")[0] not in keys_of_suites():
        return ""
    return (
        f"{override}: a suite's own key is not set once for several suites ({suites[0]}); "
        f"type one suite per command, or {name}=choice({value})"
    )


def unknown_key(name: str, arguments: Sequence[str] = ()) -> str:
    """Explain a key that no schema has, and suggest the nearest one, in one line."""
    if name == "suite":
        typed = next((word for word in arguments if word.startswith("suite=")), "suite=NAME")
        return f"{typed}: suite takes a plus: +{typed}"
    if name == "backend.env":
        return "backend.env: takes variables one by one: +backend.env.NAME=value"
    if explanation := explain_by_suites(name):
        return explanation
    keys: set[str] = set()
    suites_with_key = []
    for suite in load_suites().values():
        described = described_keys(suite.config)
        keys |= described.keys()
        if name in described:
            suites_with_key.append(suite.name)
    if suites_with_key:
        return f"{name}: a key of suite {' and '.join(suites_with_key)}, which is not chosen"
    groups = {key.split(".")[0] for key in keys if "." in key} | {"sweep", "launcher", "study"}
    names = sorted(keys | groups)
    near = translate_name(name, names) or nearest(name, names)
    hint = f"did you mean {near[0]}?" if near else "`python -m benchkit --help` lists all"
    return f"{name}: no such key; {hint}"


def translate_name(word: str, names: Sequence[str]) -> list[str]:
    return [name for name, others in NAMES_ELSEWHERE.items() if word in others and name in names]


def explain_by_suites(name: str) -> str:
    """Return the suites' explanation of an unknown key below one of theirs; "" for none."""
    parent, _, rest = name.partition(".")
    suite_of_line = {}
    for suite in load_suites().values():
        line = suite.config.unknown(parent, rest)
        if line:
            suite_of_line[line] = suite.name
    if len(suite_of_line) == 1:
        return next(iter(suite_of_line))
    return "; ".join(f"{line} (suite {suite})" for line, suite in suite_of_line.items())


def explain_type(override: str, cause: BaseException | None, arguments: Sequence[str]) -> str:
    """Explain, in one line, a value that its key's type refuses.

    Several suites may have keys of one name; the cause has the schema that refused the value.
    """
    name, _, value = override.partition("=")
    name = name.lstrip("+~")
    schemas = [suite.config for suite in load_suites().values()]
    described: dict[str, tuple[Key, Any]] = {}
    for schema in (*schemas, hydra_internals.schema_of(cause)):
        described |= described_keys(schema) if schema else {}
    if name not in described:
        return f"{override}: {' '.join(str(cause).split())}"
    key, annotation = described[name]
    if typing.get_origin(annotation) is list and value.startswith("["):
        [element] = typing.get_args(annotation)
        return f"{override}: expected a list of {element.__name__}{key_allows(key)} ({key.doc})"
    if annotation is list or typing.get_origin(annotation) is list:
        typed = next((word for word in arguments if word.startswith(f"{name}=")), override)
        values = typed.partition("=")[2] if "[" not in typed else value
        return f"{override}: expected a list: {name}=[{values}] ({key.doc})"
    is_union = typing.get_origin(annotation) in UNIONS
    parts = typing.get_args(annotation) if is_union else (annotation,)
    type_name = " or ".join("null" if part is type(None) else part.__name__ for part in parts)
    return f"{override}: expected {type_name}{key_allows(key)} ({key.doc})"


def key_allows(key: Key) -> str:
    return f", {key.allowed()}" if key.allowed() else ""
