"""What Hydra needs to know of benchkit, and the typed configurations made from what it composes."""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from benchkit.api.keys import check_ranges
from benchkit.api.registry import SUITES, load_suites
from benchkit.api.schema import ModelConfig, RunConfig
from benchkit.config.messages import suite_list, unknown_key
from benchkit.environment import visible_gpus
from benchkit.errors import ConfigError
from benchkit.suites.transformer.flops import parameters

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8}


def register() -> None:
    """Stores every schema, those of the suites among them, and every resolver."""
    store = ConfigStore.instance()
    store.store(group="schema", name="run", node=RunConfig)
    for suite in load_suites().values():
        store.store(group="schema/suite", name=suite.name, node=suite.config)
    resolvers: dict[str, Callable[..., Any]] = {
        "gradient_mib": gradient_mib,
        "matmul_sizes": matmul_sizes,
        "largest": lambda numbers: max([1, *numbers]),
        "commas": ",".join,
        "counts_of_gpus": counts_of_gpus,
    }
    for name, resolver in resolvers.items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def gradient_mib(model: DictConfig | None, dtype: str) -> float:
    """Returns the MiB of all gradients of a model; 1 without a model."""
    if model is None:
        return 1.0
    return float(parameters(cast(ModelConfig, model)) * ITEM_BYTES.get(dtype, 4) / 2**20)


def matmul_sizes(device: str) -> list[int]:
    """Returns powers of two from 64 up to what the kind of device multiplies in about a second."""
    largest_exponent = 15 if device == "cuda" else 10
    return [2**exponent for exponent in range(6, largest_exponent + 1)]


def counts_of_gpus() -> str:
    """Returns those of 2, 4 and 6 for which there are GPUs.

    With fewer than 2 GPUs it still returns 2; such a point then says that they are missing.
    """
    num_gpus = len(visible_gpus())
    return ",".join(str(count) for count in (2, 4, 6) if count <= max(2, num_gpus))


def typed(composed: DictConfig) -> RunConfig:
    """Converts a composed configuration to its suite's dataclass, and checks it.

    Raises:
        ConfigError: no suite is chosen, a key is unknown, or a value is not allowed.
    """
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
