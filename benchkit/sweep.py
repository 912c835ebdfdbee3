"""The sweep as Hydra runs it: every point checked before the first one runs, and the combined table at the end."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from benchkit.composition import typed

log = logging.getLogger("benchkit")
MOST_KEPT = 1000
"""Composed points kept in memory between check and run, at some 100 KB each; the rest are composed again."""


class Sweeper(BasicSweeper):
    """Hydra's basic sweeper with three changes: it checks values, composes once, and ends with a table."""

    def sweep(self, arguments: list[str]) -> Any:
        """Runs the product of all overrides; returns what Hydra's launcher returned."""
        assert self.config is not None
        assert self.launcher is not None
        folder = Path(self.config.hydra.sweep.dir)  # resolved first: the points copy its time stamp
        points = self.points(arguments)
        self.check(points)
        from benchkit import agent
        from benchkit.progress import PROGRESS

        agent.prepare()
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        remember_latest(folder)
        lines = logging.FileHandler(folder / "benchkit.log")
        log.addHandler(lines)
        PROGRESS.start(len(points))
        try:
            return [self.launcher.launch(points, initial_job_idx=0)]
        finally:
            PROGRESS.stop()
            print_table(folder)
            log.removeHandler(lines)
            lines.close()

    def points(self, arguments: list[str]) -> list[list[str]]:
        """The overrides of every point, in order."""
        assert self.hydra_context is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        return list(self.split_arguments(overrides, None)[0])

    def check(self, points: Sequence[Sequence[str]]) -> None:
        """Composes every point and raises ConfigError for the first that is wrong.

        Hydra composes a point twice, here and in the launcher, at some 50 ms each (hydra #1324); the launcher is
        given what was composed here.
        """
        assert self.hydra_context is not None
        assert self.config is not None
        loader = self.hydra_context.config_loader
        compose = loader.load_sweep_config
        kept: dict[tuple[str, ...], DictConfig] = {}
        for overrides in points:
            composed = compose(self.config, list(overrides))
            typed(without_hydra(composed))
            if len(kept) < MOST_KEPT:
                kept[tuple(overrides)] = composed

        def load_sweep_config(master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
            known = kept.pop(tuple(sweep_overrides), None)
            return compose(master_config, sweep_overrides) if known is None else known

        loader.load_sweep_config = load_sweep_config  # type: ignore[method-assign]


def without_hydra(composed: DictConfig) -> DictConfig:
    """The job's own part of a composed configuration."""
    own = composed.copy()
    with read_write(own), open_dict(own):
        del own["hydra"]
    return own


def remember_latest(folder: Path) -> None:
    """Points the link `latest` beside the folder at it, so that `python -m analysis outputs/latest` works."""
    link, fresh = folder.parent / "latest", folder.parent / f".latest-{os.getpid()}"
    try:
        fresh.symlink_to(folder.name)
        fresh.replace(link)
    except OSError:
        fresh.unlink(missing_ok=True)  # a file system without links, or a folder of that name: a convenience lost


def print_table(folder: Path) -> None:
    """Prints the combined table of all records below the sweep's folder."""
    from analysis.harvest import harvest
    from analysis.table import as_text, tabulate_records

    found = harvest([folder])
    if found.records:
        table = as_text(tabulate_records(found.records))
        log.info("\n%s\n\nrecords: %s   tables and plots: python -m analysis %s", table, folder, folder)
