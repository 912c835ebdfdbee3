"""What Hydra needs to know of benchkit, and the typed configurations made from what it composes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from benchkit.api.keys import check_ranges
from benchkit.api.registry import load_suites
from benchkit.api.schema import RunConfig
from benchkit.config.help import suite_list
from benchkit.config.messages import unknown_key
from benchkit.config.override_text import element
from benchkit.config.resolvers import collect_resolvers
from benchkit.errors import ConfigError


def register() -> None:
    """Stores every schema, those of the suites among them, and every resolver."""
    store = ConfigStore.instance()
    store.store(group="schema", name="run", node=RunConfig)
    for suite in load_suites().values():
        store.store(group="schema/suite", name=suite.name, node=suite.config)
    for name, resolver in collect_resolvers().items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def values_of(option: str, folders: Sequence[Path]) -> dict[str, str]:
    """Returns the values of all keys if only a suite is chosen, as one would type them.

    Args:
        option: of the group `suite`.
        folders: of YAML, benchkit's own first.
    """
    register()
    with initialize_config_dir(str(folders[0].resolve()), version_base="1.3"):
        more = ",".join(f"file://{folder.resolve()}" for folder in folders[1:])
        composed = compose("config", [f"+suite={option}", f"hydra.searchpath=[{more}]"])
    plain = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(plain, dict)
    return {str(name): element(str(name), without_point(plain[name])) for name in plain}


def without_point(value: Any) -> Any:
    """Returns a whole number as an integer, and any other value as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def typed(composed: DictConfig) -> RunConfig:
    """Converts a composed configuration to its suite's dataclass, and checks it.

    Raises:
        ConfigError: no suite is chosen, a key is unknown, or a value is not allowed.
    """
    refuse_unknown_keys(composed)
    if OmegaConf.is_missing(composed, "suite"):
        raise ConfigError("choose a suite with +suite=NAME:\n" + suite_list())
    if composed.suite not in (suites := load_suites()):
        raise ConfigError(f"suite={composed.suite}: no such suite; available: {', '.join(suites)}")
    config = OmegaConf.to_object(composed)
    assert isinstance(config, RunConfig)
    check_ranges(config)
    config.check()
    return config


def refuse_unknown_keys(node: DictConfig, prefix: str = "") -> None:
    """Raises ConfigError for a key that no schema has.

    It is needed because `+key=value` adds a key to any node, typed or not.

    Args:
        node: of the composed configuration.
        prefix: path of the node with a trailing dot, "" at the root.
    """
    schema = OmegaConf.get_type(node)
    if schema is None or not dataclasses.is_dataclass(schema):
        return
    known = {item.name for item in dataclasses.fields(schema)}
    for name in map(str, node):
        if name not in known:
            raise ConfigError(unknown_key(prefix + name))
        if not OmegaConf.is_missing(node, name) and isinstance(node[name], DictConfig):
            refuse_unknown_keys(node[name], f"{prefix}{name}.")
