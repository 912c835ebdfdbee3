"""The sweep as Hydra runs it: every point checked before the first one runs, and the combined table at the end."""

import contextlib
import itertools
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.plugins import sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

import benchkit
from benchkit import record
from benchkit.composition import typed
from benchkit.config import RunConfig, as_dict
from benchkit.errors import ConfigError
from benchkit.points import PointComposer
from benchkit.registry import start_fork_server
from launch import topology
from launch.agents import STEP_S, Agents
from launch.joining import join
from launch.meeting import JoinError
from launch.members import Lost

log = logging.getLogger("benchkit")
STATUSES: list[str] = []
"""How the points of this process's sweep ended."""


class Sweeper(sweeper.Sweeper):
    """Runs the product of all overrides, as Hydra's basic sweeper does, but checks values and ends with a table."""

    def __init__(self, params: dict[str, str] | None, only_check: bool = False) -> None:
        """Takes what `hydra.sweeper` holds.

        Args:
            params: overrides that a sweep's YAML brings, which the command line's follow and may replace.
            only_check: whether the sweep ends once every point has been checked.
        """
        self._params = params or {}
        self._only_check = only_check

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra before sweep()."""
        self._config = config
        self._context = hydra_context
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Runs all points; returns what Hydra's launcher returned for them."""
        points = self.points(arguments)
        configs = self.check(points)
        if self._only_check:
            if problem := self.folder_problem(Path(self._config.hydra.sweep.dir), len(points)):
                raise ConfigError(problem)
            return []
        agents = self.join(configs, len(points))
        configure_log(self._config.hydra.job_logging)
        start_fork_server(config.suite for config in configs)
        with agents.stopping_together():
            if not agents.first:
                log.setLevel(logging.WARNING)
                self._launcher.launch(points, initial_job_idx=0)
                agents.wait_for_end()
                return []
            with self.reported(Path(self._config.hydra.sweep.dir), len(points)):
                jobs = self._launcher.launch(points, initial_job_idx=0)
                for overrides, job in zip(points, jobs, strict=True):
                    STATUSES.append(status_of(job, overrides))
            return [jobs]

    @contextlib.contextmanager
    def reported(self, folder: Path, num_points: int) -> Iterator[None]:
        """Makes the sweep's folder and its log, and ends with the table, however the sweep ends."""
        from benchkit.progress import PROGRESS

        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self._config, folder / "multirun.yaml")
        remember_latest(folder)
        lines = logging.FileHandler(folder / "benchkit.log")
        log.addHandler(lines)
        PROGRESS.start(num_points)
        try:
            yield
        finally:
            PROGRESS.stop()
            print_table(folder)
            log.removeHandler(lines)
            lines.close()

    def join(self, configs: Sequence[RunConfig], num_points: int) -> Agents:
        """Meets the other agents of this start, where a launcher made several; all take agent 0's folder.

        Raises JoinError where they are about to run different things, ConfigError where the folder is in use.
        """
        started = topology.started()
        traits = {
            "benchkit": benchkit.__version__,
            "torch": metadata.version("torch"),
            "the command line": " ".join(sys.argv[1:]),
            "the configuration": record.digest([as_dict(config) for config in configs]),
        }
        agents = join(started, traits, self.meeting_folder(), configs[0].join_timeout_s)
        folder = str(self._config.hydra.sweep.dir)  # resolved now: the points copy its time stamp
        try:
            folder, problem = agents.exchange([folder, self.folder_problem(Path(folder), num_points)], STEP_S)[0]
        except Lost as lost:
            raise JoinError(f"{lost} before the first point") from None
        if problem:
            raise ConfigError(problem)
        self._config.hydra.sweep.dir = folder
        if started.count > 1:
            from benchkit.crew import enter  # torch is imported from here on

            enter(agents)
        return agents

    def meeting_folder(self) -> Path:
        """The part of the sweep's folder that has no time stamp: the same for all agents."""
        naming = str(OmegaConf.to_container(self._config.hydra.sweep, resolve=False)["dir"])  # type: ignore[index,call-overload]
        return Path(*itertools.takewhile(lambda part: "${" not in part, Path(naming).parts))

    def points(self, arguments: list[str]) -> list[list[str]]:
        """The overrides of every point, in order."""
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # not before Hydra has found its plugins

        parser = OverridesParser.create(config_loader=self._context.config_loader)
        own = [f"{name}={value}" for name, value in self._params.items()]
        return list(BasicSweeper.split_arguments(parser.parse_overrides([*own, *arguments]), None)[0])

    def check(self, points: Sequence[Sequence[str]]) -> list[RunConfig]:
        """Composes every point and returns its own part; raises ConfigError for the first that is wrong."""
        loader, started = self._context.config_loader, topology.started()
        compose = PointComposer(loader)
        loader.load_sweep_config = compose  # type: ignore[method-assign] # the launcher composes each point again
        configs = [typed(compose.own_part(self._config, overrides)) for overrides in points]
        for config in configs:
            if config.world_size != "auto" and int(config.world_size) % started.count:
                raise ConfigError(
                    f"world_size={config.world_size}: does not divide over the {started.count} agents of "
                    f"{started.by}; allowed are multiples of {started.count}, and auto"
                )
        return configs

    def folder_problem(self, folder: Path, num_points: int) -> str:
        """Where records would overwrite others, why; else ""."""
        if any(folder.glob("*/record.json")):
            return f"hydra.sweep.dir={folder}: holds records already; allowed is a folder without"
        naming = str(OmegaConf.to_container(self._config.hydra.sweep, resolve=False)["subdir"])  # type: ignore[index,call-overload]
        if num_points > 1 and "${" not in naming:
            return f"hydra.sweep.subdir={naming}: all points would share it; allowed is e.g. ${{hydra.job.num}}"
        return ""


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
