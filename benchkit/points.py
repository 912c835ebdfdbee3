"""Composes the points of a sweep: once per choice of groups, then only the values that vary.

Hydra composes each point from all its YAML files, twice, at some 60 ms each (hydra #1324).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf, open_dict, read_write


class PointComposer:
    """Returns what `ConfigLoader.load_sweep_config` would, in parts."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._compose: Callable[[DictConfig, list[str]], DictConfig] = loader.load_sweep_config
        self._bases: dict[tuple[str, ...], DictConfig] = {}
        self._own: dict[tuple[str, ...], DictConfig] = {}

    def own_part(self, master_config: DictConfig, sweep_overrides: Sequence[str]) -> DictConfig:
        """One point without Hydra's own node, which is the larger part; raises what Hydra raises."""
        shape, values, _ = self._split(sweep_overrides)
        if shape not in self._own:
            own = copy.deepcopy(self._base(master_config, shape))
            with read_write(own), open_dict(own):
                del own["hydra"]
            self._own[shape] = own
        point = copy.deepcopy(self._own[shape])
        self._loader._apply_overrides_to_config(values, point)
        return point

    def given(self, sweep_overrides: Sequence[str]) -> list[str]:
        """The overrides of a point that are not for Hydra itself, as a record stores them."""
        parsed = OverridesParser.create().parse_overrides(list(sweep_overrides))
        return [str(override.input_line) for override in parsed if not override.is_hydra_override()]

    def subfolder(self, master_config: DictConfig, sweep_overrides: Sequence[str], number: int) -> str:
        """What hydra.sweep.subdir says for the point of this number; raises what Hydra raises."""
        base = self._base(master_config, self._split(sweep_overrides)[0])
        naming = OmegaConf.to_container(base.hydra.sweep, resolve=False)["subdir"]  # type: ignore[index,call-overload]
        if naming == "${hydra.job.num}":
            return str(number)
        point = self.whole(master_config, sweep_overrides)
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

    def whole(self, master_config: DictConfig, sweep_overrides: Sequence[str]) -> DictConfig:
        """One point with Hydra's own node."""
        shape, values, parsed = self._split(sweep_overrides)
        point = copy.deepcopy(self._base(master_config, shape))
        self._loader._apply_overrides_to_config(values, point)
        given = [override for override in parsed if not override.is_hydra_override()]
        naming = point.hydra.job.config.override_dirname
        with open_dict(point.hydra):
            point.hydra.sweep.dir = master_config.hydra.sweep.dir
            point.hydra.overrides.task = [override.input_line for override in given]
            point.hydra.job.override_dirname = get_overrides_dirname(
                given, exclude_keys=naming.exclude_keys, item_sep=naming.item_sep, kv_sep=naming.kv_sep
            )
        return point

    def _split(self, overrides: Sequence[str]) -> tuple[tuple[str, ...], list[Override], list[Override]]:
        """What shapes a point (groups, additions, deletions), what only sets values, and both as parsed."""
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        values = [override for override in parsed if self._sets_a_value(override)]
        return tuple(str(override.input_line) for override in parsed if override not in values), values, parsed

    def _base(self, master_config: DictConfig, shape: tuple[str, ...]) -> DictConfig:
        """The point of one shape without any values, composed once."""
        if shape not in self._bases:
            self._bases[shape] = self._compose(master_config, list(shape))
        return self._bases[shape]

    def _sets_a_value(self, override: Override) -> bool:
        """True for a plain `key=value`: not a choice of group, not an addition or a deletion."""
        plain = not (override.is_add() or override.is_force_add() or override.is_delete() or override.package)
        return (
            plain
            and not override.is_hydra_override()
            and not self._loader.repository.group_exists(override.key_or_group)
        )
