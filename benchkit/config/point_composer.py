"""Composes the points of a sweep: once per choice of groups, then only the values that vary.

Hydra composes each point from all its YAML files, twice, at some 60 ms each (hydra #1324).
"""

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from benchkit.api.schema import RunConfig
from benchkit.config import hydra_internals, hydra_overrides
from benchkit.config.compose import typed
from benchkit.config.hydra_overrides import Override, Overrides
from benchkit.config.variants import Variants

NUMBERED = "${hydra.job.num}"
"""hydra.sweep.subdir if it is not set otherwise."""


@dataclass(frozen=True)
class Composed:
    """One point of a sweep.

    Attributes:
        config: checked, without Hydra's own node. Points share what is equal in them.
        overrides: those that are not for Hydra itself, as a record stores them.
        folder: relative to the sweep's folder, named by hydra.sweep.subdir.
    """

    config: RunConfig
    overrides: list[str]
    folder: str


@dataclass(frozen=True)
class Base:
    """The configuration of one choice of groups, before any values are set.

    Attributes:
        whole: with Hydra's own node.
        own: without it.
        naming: hydra.sweep.subdir before its interpolations are resolved.
    """

    whole: DictConfig
    own: DictConfig
    naming: str


class PointComposer:
    """Composes what `ConfigLoader.load_sweep_config` would, in parts.

    Every method raises what Hydra raises.
    """

    def __init__(self, loader: Any, master_config: DictConfig) -> None:
        self._loader = loader
        self._master = master_config
        self._bases: dict[tuple[str, ...], Base] = {}
        self._variants: dict[tuple[tuple[str, ...], tuple[str, ...]], Variants] = {}
        self._are_values: dict[str, bool] = {}

    def point(self, overrides: Sequence[Override], number: int) -> Composed:
        """Composes and checks the point of a sweep that has these overrides and this number.

        Raises:
            ConfigError: a key is unknown, or a value is not allowed.
        """
        parsed = hydra_overrides.sort_overrides(overrides, self._sets_a_value)
        base = self._base(parsed.shape)
        kind = parsed.shape, tuple(override.key_or_group for override in parsed.values)
        known = self._variants.get(kind)
        config = known.variant(parsed.values) if known else None
        if config is None:
            composed = self.composed(parsed)
            config = typed(composed)
            if known is None:
                self._variants[kind] = Variants(self._loader, composed)
        folder = str(number) if base.naming == NUMBERED else self._subfolder(parsed, number)
        return Composed(with_model_named(config, parsed), parsed.lines(), folder)

    def composed(self, parsed: Overrides) -> DictConfig:
        """Composes a point without Hydra's own node, which is the larger part."""
        config = copy.deepcopy(self._base(parsed.shape).own)
        parsed.set_values(self._loader, config)
        return config

    def whole(self, parsed: Overrides) -> DictConfig:
        """Composes a point with Hydra's own node."""
        point = copy.deepcopy(self._base(parsed.shape).whole)
        parsed.set_values(self._loader, point)
        with open_dict(point.hydra):
            point.hydra.sweep.dir = self._master.hydra.sweep.dir
            point.hydra.overrides.task = parsed.lines()
            point.hydra.job.override_dirname = parsed.dirname(point)
        return point

    def _sets_a_value(self, override: Override) -> bool:
        """Returns whether an override is a plain `key=value`; looks for groups once per key."""
        key = override.get_key_element()
        if key not in self._are_values:
            self._are_values[key] = hydra_overrides.sets_a_value(self._loader, override)
        return self._are_values[key]

    def _subfolder(self, parsed: Overrides, number: int) -> str:
        """Returns hydra.sweep.subdir resolved for the point of this number."""
        point = self.whole(parsed)
        with read_write(point), open_dict(point):
            point.hydra.job.num = number
            point.hydra.job.id = str(number)
        return hydra_internals.subfolder(point)

    def _base(self, shape: tuple[str, ...]) -> Base:
        if shape not in self._bases:
            whole = self._loader.load_sweep_config(self._master, list(shape))
            own = copy.deepcopy(whole)
            with read_write(own), open_dict(own):
                del own["hydra"]
            sweep: Any = OmegaConf.to_container(whole.hydra.sweep, resolve=False)
            self._bases[shape] = Base(whole, own, sweep["subdir"])
        return self._bases[shape]


def with_model_named(config: RunConfig, parsed: Overrides) -> RunConfig:
    """Returns a configuration whose model has its overridden sizes in its name.

    `model=small model.d_ff=64` becomes "small d_ff=64", so that no result of it passes for one of
    the model "small". A name that is set as well stays.
    """
    keys = [override.key_or_group for override in parsed.values]
    sizes = [key.removeprefix("model.") for key in keys if key.startswith("model.")]
    if config.model is None or not sizes or "name" in sizes:
        return config
    given = " ".join(f"{size}={getattr(config.model, size)}" for size in sorted(sizes))
    model = dataclasses.replace(config.model, name=f"{config.model.name} {given}")
    return dataclasses.replace(config, model=model)
