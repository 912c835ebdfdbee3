"""Hydra's private parts: all that benchkit uses of Hydra beyond what Hydra documents.

What Hydra's example plugins use is in benchkit.sweep, and the wording of Hydra's errors in
benchkit.config.messages. tests/unit/config/test_hydra_internals.py pins all three.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.config_loader_impl import get_overrides_dirname
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from benchkit.errors import ConfigError

ERRORS = (HydraException, OmegaConfBaseException, YAMLError)
"""Exceptions that a wrong configuration raises in Hydra, beside OSError and ValueError."""
MODES = {"--cfg", "-c", "--info", "-i", "--run", "-r", "--shell-completion", "-sc", "hydra.mode"}
"""What asks Hydra for something else than a sweep, before the equals sign."""


@dataclass
class SweepTask:
    """What Hydra is given to run. Hydra hands it to the sweeper, whose own result it discards.

    Attributes:
        statuses: how the points of the sweep ended, those of earlier attempts among them.
    """

    statuses: list[str] = field(default_factory=list)

    def __call__(self, composed: DictConfig) -> None:
        """Refuses to run a point for Hydra, because the sweeper runs all points itself."""
        raise ConfigError(
            "hydra.mode and hydra/sweeper are benchkit's: one point is a sweep of one, "
            "and checked first"
        )


def run(folder: Path, arguments: Sequence[str]) -> list[str]:
    """Runs Hydra on a command line and returns the statuses of its points.

    Hydra's errors are raised, where Hydra would print them and exit.

    Args:
        folder: of the YAML files.
        arguments: as typed, without the name of the program.
    """
    task = SweepTask()
    start = hydra.main(config_path=str(folder), config_name="config", version_base="1.3")(task)
    typed, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [typed[0], *multirun_first(arguments)]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        start()
    finally:
        sys.argv = typed
        del os.environ["HYDRA_FULL_ERROR"]
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error
    return task.statuses


def multirun_first(arguments: Sequence[str]) -> list[str]:
    """Puts -m in front, wherever it stands and where it is missing.

    Hydra 1.3 accepts no override after a flag (hydra #3053, fixed in 1.4). Without -m it calls
    values with commas ambiguous where something else is wrong, and does not say what.
    """
    others = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    names = {argument.split("=")[0] for argument in others}
    return others if names & MODES else ["-m", *others]


def product(loader: Any, arguments: Sequence[str]) -> list[list[str]]:
    """Returns the overrides of every point: all combinations of the values in the arguments."""
    # Hydra must have found its plugins before this import.
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    parsed = OverridesParser.create(loader).parse_overrides(list(arguments))
    return [list(overrides) for overrides in BasicSweeper.split_arguments(parsed, None)[0]]


@dataclass(frozen=True)
class Overrides:
    """The parsed overrides of a point.

    Attributes:
        own: those that are not for Hydra itself.
        shape: those that shape the point, as given: groups, additions, deletions, Hydra's.
        values: those that only set values.
    """

    own: list[Override]
    shape: tuple[str, ...]
    values: list[Override]

    def lines(self) -> list[str]:
        """Returns those that are not for Hydra itself, as given."""
        return [str(override.input_line) for override in self.own]

    def set_values(self, loader: Any, config: DictConfig) -> None:
        """Sets the values in a configuration that has the shape."""
        loader._apply_overrides_to_config(self.values, config)

    def dirname(self, point: DictConfig) -> str:
        """Returns hydra.job.override_dirname of the point."""
        naming = point.hydra.job.config.override_dirname
        return get_overrides_dirname(self.own, naming.exclude_keys, naming.item_sep, naming.kv_sep)


def parse(loader: Any, overrides: Sequence[str]) -> Overrides:
    """Parses the overrides of a point, none of which sweeps."""
    parsed = OverridesParser.create(loader).parse_overrides(list(overrides))
    own = [override for override in parsed if not override.is_hydra_override()]
    values = [override for override in own if sets_a_value(loader, override)]
    shape = tuple(str(override.input_line) for override in parsed if override not in values)
    return Overrides(own, shape, values)


def sets_a_value(loader: Any, override: Override) -> bool:
    """Tells a plain `key=value` from a choice of group, an addition or a deletion."""
    if override.is_add() or override.is_force_add() or override.is_delete() or override.package:
        return False
    return not loader.repository.group_exists(override.key_or_group)


def subfolder(point: DictConfig) -> str:
    """Returns hydra.sweep.subdir, whose ${hydra:…} are resolved from the point."""
    instance = HydraConfig.instance()
    before = instance.cfg
    instance.set_config(point)
    try:
        return str(point.hydra.sweep.subdir)
    finally:
        instance.cfg = before
