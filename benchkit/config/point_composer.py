"""Composes the points of a sweep: once per choice of groups, then only the values that vary.

Hydra composes each point from all its YAML files, twice, at some 60 ms each (hydra #1324).
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

NUMBERED = "${hydra.job.num}"
"""hydra.sweep.subdir if it is not set otherwise."""


@dataclass(frozen=True)
class Composed:
    """One point of a sweep.

    Attributes:
        config: without Hydra's own node, which is the larger part.
        overrides: those that are not for Hydra itself, as a record stores them.
        folder: relative to the sweep's folder, named by hydra.sweep.subdir.
    """

    config: DictConfig
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


@dataclass(frozen=True)
class Parsed:
    """The overrides of a point.

    Attributes:
        every: all of them.
        shape: those that shape the point: groups, additions, deletions.
        values: those that only set values.
    """

    every: list[Override]
    shape: tuple[str, ...]
    values: list[Override]

    @property
    def own(self) -> list[Override]:
        """Those that are not for Hydra itself."""
        return [override for override in self.every if not override.is_hydra_override()]


class PointComposer:
    """Composes what `ConfigLoader.load_sweep_config` would, in parts.

    Every method raises what Hydra raises.
    """

    def __init__(self, loader: Any, master_config: DictConfig) -> None:
        self._loader = loader
        self._master = master_config
        self._bases: dict[tuple[str, ...], Base] = {}

    def product(self, arguments: Sequence[str]) -> list[list[str]]:
        """Returns the overrides of every point: all combinations of the values in the arguments."""
        # Hydra must have found its plugins before this import.
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

        parser = OverridesParser.create(config_loader=self._loader)
        parsed = parser.parse_overrides(list(arguments))
        return [list(overrides) for overrides in BasicSweeper.split_arguments(parsed, None)[0]]

    def point(self, overrides: Sequence[str], number: int) -> Composed:
        """Composes the point of a sweep that has these overrides and this number."""
        parsed = self._parse(overrides)
        base = self._base(parsed.shape)
        config = copy.deepcopy(base.own)
        self._loader._apply_overrides_to_config(parsed.values, config)
        own_overrides = [str(override.input_line) for override in parsed.own]
        folder = str(number) if base.naming == NUMBERED else self._subfolder(parsed, number)
        return Composed(config, own_overrides, folder)

    def whole(self, overrides: Sequence[str]) -> DictConfig:
        """Composes a point with Hydra's own node."""
        return self._whole(self._parse(overrides))

    def _whole(self, parsed: Parsed) -> DictConfig:
        point = copy.deepcopy(self._base(parsed.shape).whole)
        self._loader._apply_overrides_to_config(parsed.values, point)
        naming = point.hydra.job.config.override_dirname
        with open_dict(point.hydra):
            point.hydra.sweep.dir = self._master.hydra.sweep.dir
            point.hydra.overrides.task = [override.input_line for override in parsed.own]
            point.hydra.job.override_dirname = get_overrides_dirname(
                parsed.own,
                exclude_keys=naming.exclude_keys,
                item_sep=naming.item_sep,
                kv_sep=naming.kv_sep,
            )
        return point

    def _subfolder(self, parsed: Parsed, number: int) -> str:
        """Returns hydra.sweep.subdir resolved for the point of this number."""
        point = self._whole(parsed)
        with read_write(point), open_dict(point):
            point.hydra.job.num = number
            point.hydra.job.id = str(number)
        instance = HydraConfig.instance()
        before = instance.cfg
        instance.set_config(point)  # for ${hydra:…}
        try:
            return str(point.hydra.sweep.subdir)
        finally:
            instance.cfg = before

    def _base(self, shape: tuple[str, ...]) -> Base:
        if shape not in self._bases:
            whole = self._loader.load_sweep_config(self._master, list(shape))
            own = copy.deepcopy(whole)
            with read_write(own), open_dict(own):
                del own["hydra"]
            sweep: Any = OmegaConf.to_container(whole.hydra.sweep, resolve=False)
            self._bases[shape] = Base(whole, own, sweep["subdir"])
        return self._bases[shape]

    def _parse(self, overrides: Sequence[str]) -> Parsed:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        values = [override for override in parsed if self._sets_a_value(override)]
        shape = tuple(str(override.input_line) for override in parsed if override not in values)
        return Parsed(parsed, shape, values)

    def _sets_a_value(self, override: Override) -> bool:
        """Tells a plain `key=value` from a choice of group, an addition or a deletion."""
        if override.is_add() or override.is_force_add() or override.is_delete():
            return False
        if override.package or override.is_hydra_override():
            return False
        return not self._loader.repository.group_exists(override.key_or_group)
