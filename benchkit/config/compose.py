"""What Hydra needs to know of benchkit, and its answers turned into benchkit's: schemas, help, one-line errors."""

import dataclasses
import difflib
import re
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from benchkit.api.keys import Key, check_ranges, described_keys
from benchkit.api.registry import SUITES, load_suites
from benchkit.api.schema import ModelConfig, RunConfig
from benchkit.environment import visible_gpus
from benchkit.errors import ConfigError
from benchkit.suites.transformer.flops import parameters

UNIONS = (typing.Union, types.UnionType)
ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8}


def register() -> None:
    """Stores every schema and resolver; the suites' own schemas among them."""
    store = ConfigStore.instance()
    store.store(group="schema", name="run", node=RunConfig)
    for suite in load_suites().values():
        store.store(group="schema/suite", name=suite.name, node=suite.config)
    OmegaConf.register_new_resolver("gradient_mib", gradient_mib, replace=True)
    OmegaConf.register_new_resolver("matmul_sizes", matmul_sizes, replace=True)
    OmegaConf.register_new_resolver("largest", lambda numbers: max([1, *numbers]), replace=True)
    OmegaConf.register_new_resolver("commas", ",".join, replace=True)
    OmegaConf.register_new_resolver("counts_of_gpus", counts_of_gpus, replace=True)


def gradient_mib(model: DictConfig | None, dtype: str) -> float:
    """MiB of all gradients of a model; 1 without one."""
    if model is None:
        return 1.0
    return float(parameters(cast(ModelConfig, model)) * ITEM_BYTES.get(dtype, 4) / 2**20)


def matmul_sizes(device: str) -> list[int]:
    """Powers of two from 64, to what a device of the kind multiplies in about a second."""
    return [2**exponent for exponent in range(6, 16 if device == "cuda" else 11)]


def counts_of_gpus() -> str:
    """2, 4 and 6 as far as there are GPUs; 2 where there are fewer, which such a point then says."""
    there = len(visible_gpus())
    return ",".join(str(count) for count in (2, 4, 6) if count <= max(2, there))


def typed(composed: DictConfig) -> RunConfig:
    """The composed configuration as its suite's dataclass, checked; raises ConfigError."""
    if OmegaConf.is_missing(composed, "suite"):
        raise ConfigError("choose a suite with +suite=NAME:\n" + suite_list())
    if composed.suite not in SUITES:
        raise ConfigError(f"suite={composed.suite}: no such suite; available: {', '.join(SUITES)}")
    refuse_unknown_keys(composed)
    config = OmegaConf.to_object(composed)
    assert isinstance(config, RunConfig)
    check_ranges(config)
    config.check()
    return config


def refuse_unknown_keys(node: DictConfig, prefix: str = "") -> None:
    """Raises ConfigError for a key that no schema has: `+key=value` adds one to any node, typed or not."""
    schema = OmegaConf.get_type(node)
    if schema is None or not dataclasses.is_dataclass(schema):
        return
    known = {item.name for item in dataclasses.fields(schema)}
    for name in map(str, node):
        if name not in known:
            raise ConfigError(unknown_key(prefix + name))
        if not OmegaConf.is_missing(node, name) and isinstance(node[name], DictConfig):
            refuse_unknown_keys(node[name], f"{prefix}{name}.")


def suite_list() -> str:
    """One line per suite: its name, what it measures, its keys with their units."""
    lines = []
    for suite in SUITES.values():
        keys = ", ".join(name + (f" [{key.unit}]" if key.unit else "") for name, key in own_keys(suite.config).items())
        lines.append(f"  {suite.name:<12} {suite.summary} Keys: {keys}")
    return "\n".join(lines)


def own_keys(schema: type[RunConfig]) -> dict[str, Key]:
    """The keys that a suite adds to those of every run."""
    shared = described_keys(RunConfig)
    return {name: described for name, (described, _) in described_keys(schema).items() if name not in shared}


def keys_of_suites() -> set[str]:
    """The keys that some suites have and others do not, without what is below them."""
    return {name.split(".")[0] for suite in SUITES.values() for name in own_keys(suite.config)}


def key_rows(keys: dict[str, Key]) -> str:
    """One line per key: its name, what it means, what it may be."""
    return "\n".join(
        f"  {name:<27} {key.doc}" + (f"  [{key.allowed()}]" if key.allowed() else "") for name, key in keys.items()
    )


def help_text(folders: Iterable[Path]) -> str:
    """The text of --help, written from the schemas and the folders of YAML so that it cannot lag behind them."""
    suites = "\n\n".join(
        f"  +suite={suite.name}   {suite.summary}\n{key_rows(own_keys(suite.config))}" for suite in SUITES.values()
    )
    shared = key_rows({name: key for name, (key, _) in described_keys(RunConfig).items() if name != "suite"})
    options: dict[str, set[str]] = {}
    for path in (path for folder in folders for path in folder.glob("*/*.yaml")):
        options.setdefault(path.parent.name, set()).add(path.stem)
    groups = "\n".join(f"  {group:<27} {', '.join(sorted(names))}" for group, names in sorted(options.items()))
    return f"""benchkit: distributed deep-learning benchmarks from one command

  python -m benchkit +suite=allreduce data_size=100                one point
  python -m benchkit +suite=allreduce -m data_size=1,10,100,1000   a sweep: commas where values vary
  python -m benchkit sweep=gloo_cpu                                a whole study by name
  python -m analysis outputs/latest                                tables, plots and text of it

Suites and their keys (key=value)
{suites}

Keys of every run
{shared}

Groups, one option each (group=option; +suite=option)
{groups}

Flags such as --config-dir DIR (more YAML, of your own) come before the overrides; --cfg job prints the composed
configuration; --hydra-help lists all flags. Exit code: 0 all is well, 1 a point failed or none was measured,
2 the configuration is wrong, 128 + N ended by signal N (130: Ctrl-C)."""


def explain(error: Exception) -> str:
    """One line for a configuration error of Hydra's or OmegaConf's: the key, what was given, what is allowed."""
    text = " ".join(str(error).split())
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    if found := re.search(r"Could not find '(.+)/(.+?)' Available options in '.*?': (.*?) Config search path", text):
        group, name, options = found.groups()
        return f"{group}={name}: no such {group}; available: {', '.join(sorted(options.split()))}"
    if "Config group override must be a string" in text:
        return "a group cannot be null here; choose one of its options (`python -m benchkit --help` lists them)"
    if found := re.search(r"Could not override '(.+?)'\.", text):
        return unknown_key(found[1])
    if found := re.search(r"Error merging override (\S+)", text):
        return wrong_type(found[1], " ".join(str(cause).split()))
    if found := re.search(r"In '(.+?)': .*?Key '(.+?)' not in", text):
        return f"conf {found[1]}: {unknown_key(found[2])}"
    return text.removesuffix("See https://hydra.cc/docs/1.2/advanced/override_grammar/basic for details").strip()


def unknown_key(name: str) -> str:
    """One line for a misspelt key, with the nearest of the keys there are."""
    if name == "suite":
        return f"suite: takes a plus: +suite={'|'.join(SUITES)}"
    if name == "backend.env":
        return "backend.env: takes variables one by one: +backend.env.NAME=value"
    parent, _, rest = name.partition(".")
    told = {line: suite.name for suite in SUITES.values() if (line := suite.config.unknown(parent, rest))}
    if told:
        return "; ".join(line if len(told) == 1 else f"{line} (suite {suite})" for line, suite in told.items())
    keys = {name for suite in SUITES.values() for name in described_keys(suite.config)}
    groups = {name.split(".")[0] for name in keys if "." in name} | {"sweep", "launcher"}
    if name in keys:
        having = [suite.name for suite in SUITES.values() if name in described_keys(suite.config)]
        return f"{name}: a key of suite {' and '.join(having)}, which is not chosen"
    near = difflib.get_close_matches(name, keys | groups, n=1)
    hint = f"did you mean {near[0]}?" if near else "`python -m benchkit --help` lists all"
    return f"{name}: no such key; {hint}"


def wrong_type(override: str, reason: str) -> str:
    """One line for a value that its key's type refuses."""
    name = override.split("=")[0].lstrip("+~")
    described: dict[str, tuple[Key, Any]] = {}
    for suite in SUITES.values():
        described |= described_keys(suite.config)
    if name not in described:
        return f"{override}: {reason}"
    key, annotation = described[name]
    parts = typing.get_args(annotation) if typing.get_origin(annotation) in UNIONS else (annotation,)
    type_name = " or ".join("null" if part is type(None) else part.__name__ for part in parts)
    allowed = f", {key.allowed()}" if key.allowed() else ""
    return f"{override}: expected {type_name}{allowed} ({key.doc})"
