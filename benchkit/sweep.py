"""The sweep as Hydra runs it: every point checked before the first one runs, and the combined table at the end."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins import sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from benchkit.composition import typed
from benchkit.errors import ConfigError
from benchkit.points import PointComposer
from benchkit.registry import start_fork_server

log = logging.getLogger("benchkit")
STATUSES: list[str] = []
"""How the points of this process's sweep ended."""


class Sweeper(sweeper.Sweeper):
    """Runs the product of all overrides, as Hydra's basic sweeper does, but checks values and ends with a table."""

    def __init__(self, params: dict[str, str] | None) -> None:
        """`params`: overrides that a sweep's YAML brings, which the command line's follow and may replace."""
        self._params = params or {}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra before sweep()."""
        self._config = config
        self._context = hydra_context
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Runs all points; returns what Hydra's launcher returned for them."""
        folder = Path(self._config.hydra.sweep.dir)  # resolved first: the points copy its time stamp
        points = self.points(arguments)
        self.check(points)
        self.check_folders(folder, len(points))
        start_fork_server()
        from benchkit.progress import PROGRESS

        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self._config, folder / "multirun.yaml")
        remember_latest(folder)
        lines = logging.FileHandler(folder / "benchkit.log")
        log.addHandler(lines)
        PROGRESS.start(len(points))
        try:
            jobs = self._launcher.launch(points, initial_job_idx=0)
            for overrides, job in zip(points, jobs, strict=True):
                STATUSES.append(status_of(job, overrides))
            return [jobs]
        finally:
            PROGRESS.stop()
            print_table(folder)
            log.removeHandler(lines)
            lines.close()

    def points(self, arguments: list[str]) -> list[list[str]]:
        """The overrides of every point, in order."""
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # not before Hydra has found its plugins

        parser = OverridesParser.create(config_loader=self._context.config_loader)
        own = [f"{name}={value}" for name, value in self._params.items()]
        return list(BasicSweeper.split_arguments(parser.parse_overrides([*own, *arguments]), None)[0])

    def check(self, points: Sequence[Sequence[str]]) -> None:
        """Composes every point and raises ConfigError for the first that is wrong."""
        loader = self._context.config_loader
        compose = PointComposer(loader)
        loader.load_sweep_config = compose  # type: ignore[method-assign] # the launcher composes each point again
        for overrides in points:
            typed(compose.own_part(self._config, overrides))

    def check_folders(self, folder: Path, num_points: int) -> None:
        """Raises ConfigError where records would overwrite others."""
        if any(folder.glob("*/record.json")):
            raise ConfigError(f"hydra.sweep.dir={folder}: holds records already; allowed is a folder without")
        naming = str(OmegaConf.to_container(self._config.hydra.sweep, resolve=False)["subdir"])  # type: ignore[index,call-overload]
        if num_points > 1 and "${" not in naming:
            raise ConfigError(
                f"hydra.sweep.subdir={naming}: all points would share it; allowed is e.g. ${{hydra.job.num}}"
            )


def status_of(job: JobReturn, overrides: Sequence[str]) -> str:
    """A job's status; where it ended without one, as when its folder cannot be made, says so."""
    if job.status == JobStatus.COMPLETED:
        return str(job.return_value)
    log.error("%s: no record: %r", " ".join(overrides), job._return_value)
    return "error"


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
    from analysis.table import as_text, combine

    found = harvest([folder])
    for line in found.passed_over:
        log.warning("passed over %s", line)
    if found.rows:
        table = as_text(combine(found.rows))
        log.info("\n%s\n\nrecords: %s   tables and plots: python -m analysis %s", table, folder, folder)
