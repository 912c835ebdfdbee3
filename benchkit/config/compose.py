"""Compose the points of a sweep: once per choice of groups, then only the values that vary.

Hydra composes each point from all its YAML files, twice, at some 60 ms each (hydra #1324).
"""

import copy
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict, read_write

from benchkit.api.keys import RunConfig, check_ranges, nested_schema, require_accepted
from benchkit.api.registry import installed_plugins, load_suites
from benchkit.config import hydra_internals
from benchkit.config.command_line import format_value
from benchkit.config.help_pages import suite_list
from benchkit.config.hydra_internals import Override, Overrides
from benchkit.config.messages import unknown_key
from benchkit.environment import visible_gpus
from benchkit.errors import ConfigError
from benchkit.secrets import FROM_ENVIRONMENT
from launch.launcher_env import num_hosts

AUTO = "auto"
"""The hardware of this machine."""


def largest(numbers: Sequence[int]) -> int:
    return max([1, *numbers])


def counts_of_gpus(*, _root_: DictConfig) -> str:
    """Return those of 2, 4, 6, 8, 16, 32, … for which there are GPUs on all hosts.

    With fewer than 2 GPUs it still returns 2; such a point then reports that they are missing.
    """
    job = gpus_of_job(_root_)
    num_gpus = len(visible_gpus().names) * num_hosts() if job is None else job
    most = max(2, num_gpus)
    powers = [2**exponent for exponent in range(1, most.bit_length())]
    return ",".join(str(count) for count in sorted({*powers, 6}) if count <= most)


def gpus_of_job(master: DictConfig) -> int | None:
    """Return the number of GPUs of a Slurm job; None without Slurm jobs."""
    params = OmegaConf.select(master, "hydra.launcher", default={})
    if "partition" not in params:
        return None
    extra = (params.get("additional_parameters") or {}).items()
    gres = [value for name, value in extra if "gpu" in f"{name}={value}"]
    gpus = re.search(r"\d+$", str(params.gpus_per_node or (gres or [0])[0]))  # "8", or "a100:8"
    return int(params.nodes) * int(gpus[0] if gpus else 1)


def hardware_here() -> str:
    return "cuda" if visible_gpus().names else "cpu"


def backend_for(hardware: str) -> str:
    """Return nccl for `cuda` only: other options have ranks share a GPU, which NCCL refuses."""
    chosen = hardware_here() if hardware == "auto" else hardware
    return "nccl" if chosen == "cuda" else "gloo"


def collect_resolvers() -> dict[str, Callable[..., Any]]:
    """Return all resolvers; raise ConfigError for two of one name."""
    resolvers: dict[str, Callable[..., Any]] = {
        "largest": largest,
        "commas": ",".join,
        "counts_of_gpus": counts_of_gpus,
        "hardware_here": hardware_here,
        "backend_for": backend_for,
    }
    for suite in load_suites().values():
        for name, resolver in suite.resolvers.items():
            if resolvers.setdefault(name, resolver) is not resolver:
                raise ConfigError(
                    f"suite {suite.name}: resolver {name}: the name is taken; "
                    "allowed is one that no other resolver has"
                )
    return resolvers


def register() -> None:
    store = ConfigStore.instance()
    store.store(group="schema", name="run", node=RunConfig)
    for suite in load_suites().values():
        store.store(group="schema/suite", name=suite.name, node=suite.config)
    for name, resolver in collect_resolvers().items():
        OmegaConf.register_new_resolver(name, resolver, replace=True)


def values_of(option: str, folders: Sequence[Path]) -> dict[str, str]:
    """Return the values of all keys if only a suite is chosen, as typed on a command line."""
    register()
    with initialize_config_dir(str(folders[0].resolve()), version_base="1.3"):
        search_path = ",".join(f"file://{folder.resolve()}" for folder in folders[1:])
        composed = compose("config", [f"+suite={option}", f"hydra.searchpath=[{search_path}]"])
    plain = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(plain, dict)
    return {str(name): format_value(str(name), drop_fraction(plain[name])) for name in plain}


def drop_fraction(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def to_structured_config(composed: DictConfig) -> RunConfig:
    """Convert a composed configuration to its suite's dataclass; raise ConfigError if wrong."""
    refuse_unknown_keys(composed)
    if OmegaConf.is_missing(composed, "suite"):
        raise ConfigError("choose a suite with +suite=NAME:\n" + suite_list())
    if composed.suite not in (suites := load_suites()):
        reason = f"suite={composed.suite}: no such suite; available: {', '.join(suites)}"
        raise ConfigError(installed_plugins().left_out.get(composed.suite, reason))
    config = OmegaConf.to_object(composed)
    assert isinstance(config, RunConfig)
    check_ranges(config)
    config = config.parse()
    config.check()
    return config


def refuse_unknown_keys(node: DictConfig, prefix: str = "") -> None:
    """Raise ConfigError for a key of no schema: `+key=value` adds one to any node."""
    schema = OmegaConf.get_type(node)
    if schema is None or not dataclasses.is_dataclass(schema):
        return
    known = {item.name for item in dataclasses.fields(schema)}
    for name in map(str, node):
        if name not in known:
            raise ConfigError(unknown_key(prefix + name))
        if not OmegaConf.is_missing(node, name) and isinstance(node[name], DictConfig):
            refuse_unknown_keys(node[name], f"{prefix}{name}.")


NAMES = re.compile(r"[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class KeySetting:
    """Effect of an override: the path of its key, and the value with the key's type."""

    path: list[str]
    value: Any


class PointTemplate:
    """Template for points that have the groups and keys of one point, and other values.

    Composing, converting and checking a point takes milliseconds. Here only the values of the
    overrides are converted and checked, each once.
    """

    def __init__(self, loader: Any, composed: DictConfig) -> None:
        """`composed` is a point as Hydra composes it; this object modifies it later."""
        self._loader = loader
        self._composed = composed
        self._config: Any = OmegaConf.to_object(composed)
        self._needed = set(needed_names(OmegaConf.to_container(composed, resolve=False)))
        self._settings: dict[str | None, KeySetting | None] = {}

    def with_values(self, values: Sequence[Override]) -> RunConfig | None:
        """Return the point with these values; None if it must be composed as a whole.

        It must if another key depends on one of the values, or if a value is wrong: composing the
        whole point gives the message.
        """
        config: RunConfig = copy.copy(self._config)
        for override in values:
            if override.input_line not in self._settings:
                self._settings[override.input_line] = self._setting(override)
            setting = self._settings[override.input_line]
            if setting is None:
                return None
            assign(config, setting.path, setting.value)
        try:
            config = config.parse()
            config.check()
        except ConfigError:
            return None
        return config

    def _setting(self, override: Override) -> KeySetting | None:
        """Return the effect of an override; None if it does more than to set a valid value."""
        key = override.key_or_group
        path = key.split(".")
        if key == "suite" or any(depends_on(name, key) for name in self._needed):
            return None
        described = field_at(type(self._config), path)
        if described is None or nested_schema(described.type):
            return None
        try:
            hydra_internals.set_value(self._loader, override, self._composed)
            value = OmegaConf.select(self._composed, key, throw_on_missing=True)
            if isinstance(value, DictConfig) or needed_names(override.value()):
                return None
            if isinstance(value, ListConfig):
                value = OmegaConf.to_object(value)
            require_accepted(described, key, value)
        except (*hydra_internals.ERRORS, ConfigError, ValueError):
            return None
        return KeySetting(path, value)


def needed_names(value: Any) -> list[str]:
    return [name for text in texts(value) if "${" in text for name in NAMES.findall(text)]


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value


def depends_on(name: str, key: str) -> bool:
    """Return whether a name in an interpolation may mean a key, a part of it or its group.

    A relative name lacks the groups around it, so the last part decides.
    """
    is_within = name.startswith(f"{key}.") or key.startswith(f"{name}.")
    return is_within or name.rpartition(".")[2] == key.rpartition(".")[2]


def field_at(schema: type | None, path: Sequence[str]) -> Any:
    for position, part in enumerate(path, 1):
        match = next((item for item in fields(schema or object) if item.name == part), None)
        if match is None or position == len(path):
            return match
        schema = nested_schema(match.type)
        if schema is None:
            return None
    return None


def assign(config: Any, path: Sequence[str], value: Any) -> None:
    """Set a value in a configuration whose groups other points share, which are copied."""
    for part in path[:-1]:
        group = copy.copy(getattr(config, part))
        setattr(config, part, group)
        config = group
    setattr(config, path[-1], value)


NUMBERED = "${hydra.job.num}"
"""Default of hydra.sweep.subdir."""


@dataclass(frozen=True)
class Composed:
    """One point of a sweep; `folder` is relative to the sweep's.

    `config` is checked and lacks Hydra's own node; points share its equal parts. `overrides` lack
    those for Hydra itself. `interpolations` has the texts, by their keys, that take a value
    from the environment, such as `${oc.env:NAME}`; a record has them in place of the values.
    """

    config: RunConfig
    overrides: list[str]
    folder: str
    interpolations: dict[str, str]


@dataclass(frozen=True)
class Base:
    """The configuration of one choice of groups, before any values are set.

    `with_hydra` has Hydra's own node, `without_hydra` lacks it. `texts` are those of
    `without_hydra` with interpolations, by their keys. `subdir_template` is hydra.sweep.subdir, not
    interpolated.
    """

    with_hydra: DictConfig
    without_hydra: DictConfig
    texts: dict[str, str]
    subdir_template: str

    def texts_with(self, values: Sequence[Override]) -> dict[str, str]:
        """Return the texts with interpolations once these values are set."""
        texts = dict(self.texts)
        for override in values:
            texts.pop(override.key_or_group, None)
            texts |= interpolated({override.key_or_group: override.value()})
        return texts


def interpolated(plain: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts with interpolations in plain data, and their keys."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from interpolated(value, f"{key}.{name}" if key else str(name))
    elif isinstance(plain, str) and "${" in plain:
        yield key, plain


def from_environment(schema: type, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that take a value from the environment, directly or by another key.

    Only variables and keys of free text count; names and numbers are needed by reports.
    """
    keys = {key for key, text in texts.items() if FROM_ENVIRONMENT.search(text)}
    size = 0
    while size < len(keys):
        size = len(keys)
        keys |= {
            key
            for key, text in texts.items()
            if any(
                depends_on(name, other_key) for name in NAMES.findall(text) for other_key in keys
            )
        }
    return {key: texts[key] for key in sorted(keys) if takes_any_text(schema, key)}


def takes_any_text(schema: type, key: str) -> bool:
    path = key.lstrip("+").split(".")
    item = field_at(schema, path) or field_at(schema, path[:-1])
    if item is None or item.metadata["key"].choices:
        return False
    return item.type in (str | None, dict[str, str])


class PointComposer:
    """Composes what `ConfigLoader.load_sweep_config` would, in parts.

    Every method raises what Hydra raises.
    """

    def __init__(
        self, loader: Any, master_config: DictConfig, typed: Mapping[str, Override] | None = None
    ) -> None:
        """`typed` has unresolved overrides by resolved lines; records have them in their place."""
        self._loader = loader
        self._master = master_config
        self._typed = typed or {}
        self._bases: dict[tuple[str, ...], Base] = {}
        self._templates: dict[tuple[tuple[str, ...], tuple[str, ...]], PointTemplate] = {}
        self._are_values: dict[str, bool] = {}

    def point(self, overrides: Sequence[Override], number: int) -> Composed:
        """Compose and check the point with these overrides; raise ConfigError if wrong."""
        parsed = hydra_internals.sort_overrides(overrides, self._sets_a_value)
        base = self._base(parsed.shape)
        kind = parsed.shape, tuple(override.key_or_group for override in parsed.values)
        template = self._templates.get(kind)
        config = template.with_values(parsed.values) if template else None
        if config is None:
            composed = self.compose_point(parsed)
            config = to_structured_config(composed)
            if template is None:
                self._templates[kind] = PointTemplate(self._loader, composed)
        final_config = add_sizes_to_name(config, parsed, base.without_hydra)
        raw = [
            self._typed.get(str(override.input_line), override) for override in parsed.for_benchkit
        ]
        interpolations = from_environment(type(final_config), base.texts_with(raw))
        written = [
            unresolved if unresolved.key_or_group in interpolations else resolved
            for unresolved, resolved in zip(raw, parsed.for_benchkit, strict=True)
        ]
        parsed = dataclasses.replace(parsed, for_benchkit=written)
        folder = (
            str(number) if base.subdir_template == NUMBERED else self._subfolder(parsed, number)
        )
        return Composed(final_config, parsed.lines(), folder, interpolations)

    def compose_point(self, parsed: Overrides) -> DictConfig:
        """Compose a point without Hydra's own node, which is the larger part."""
        config = copy.deepcopy(self._base(parsed.shape).without_hydra)
        parsed.set_values(self._loader, config)
        return config

    def compose_with_hydra(self, parsed: Overrides) -> DictConfig:
        point = copy.deepcopy(self._base(parsed.shape).with_hydra)
        parsed.set_values(self._loader, point)
        with open_dict(point.hydra):
            point.hydra.sweep.dir = self._master.hydra.sweep.dir
            point.hydra.overrides.task = parsed.lines()
            point.hydra.job.override_dirname = parsed.dirname(point)
        return point

    def _sets_a_value(self, override: Override) -> bool:
        key = override.get_key_element()
        if key not in self._are_values:
            self._are_values[key] = hydra_internals.sets_a_value(self._loader, override)
        return self._are_values[key]

    def _subfolder(self, parsed: Overrides, number: int) -> str:
        point = self.compose_with_hydra(parsed)
        with read_write(point), open_dict(point):
            point.hydra.job.num = number
            point.hydra.job.id = str(number)
        return hydra_internals.subfolder(point)

    def _base(self, shape: tuple[str, ...]) -> Base:
        if shape not in self._bases:
            with_hydra = self._loader.load_sweep_config(self._master, list(shape))
            gpus = gpus_of_job(self._master)
            if gpus is not None and with_hydra.hydra.runtime.choices.get("hardware") == AUTO:
                # The job runs on another machine than this one.
                chosen = [line for line in shape if not line.startswith("hardware=")]
                hardware = f"hardware={'cuda' if gpus else 'cpu'}"
                with_hydra = self._loader.load_sweep_config(self._master, [*chosen, hardware])
            without_hydra = copy.deepcopy(with_hydra)
            with read_write(without_hydra), open_dict(without_hydra):
                del without_hydra["hydra"]
            sweep: Any = OmegaConf.to_container(with_hydra.hydra.sweep, resolve=False)
            texts = dict(interpolated(OmegaConf.to_container(without_hydra, resolve=False)))
            self._bases[shape] = Base(with_hydra, without_hydra, texts, sweep["subdir"])
        return self._bases[shape]


def add_sizes_to_name(config: RunConfig, parsed: Overrides, base: DictConfig) -> RunConfig:
    """Return a configuration whose model has in its name the sizes that differ from its `base`.

    `model=small model.d_ff=64` becomes "small d_ff=64", so that its results do not pass
    for those of model "small". A name that is set as well stays.
    """
    keys = [override.key_or_group for override in parsed.values]
    sizes = [key.removeprefix("model.") for key in keys if key.startswith("model.")]
    if config.model is None or not sizes or "name" in sizes:
        return config
    values = {size: getattr(config.model, size) for size in sorted(sizes)}
    changed = " ".join(
        f"{size}={value}" for size, value in values.items() if value != base.model[size]
    )
    if not changed:
        return config
    model = dataclasses.replace(config.model, name=f"{config.model.name} {changed}")
    return dataclasses.replace(config, model=model)
