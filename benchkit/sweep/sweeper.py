"""The sweep as Hydra runs it: every point checked before the first one runs, the combined table at the end."""

import contextlib
import logging
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import configure_log
from hydra.plugins import sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

import benchkit
from benchkit import record
from benchkit.api.registry import start_fork_server
from benchkit.api.schema import RunConfig, as_dict
from benchkit.config.compose import typed
from benchkit.config.point_composer import PointComposer
from benchkit.errors import ConfigError
from benchkit.point.agents import current_agents, enter
from benchkit.point.placement import resolve_world_size
from benchkit.point.point import Point
from benchkit.sweep import folder as sweep_folder
from benchkit.sweep import manifest
from benchkit.sweep.agenda import Agenda, made_with, meeting_folder, prepared
from benchkit.sweep.launchers import Launcher
from benchkit.sweep.manifest import Entry
from benchkit.sweep.resume import Resume, without_settings
from launch import topology
from launch.agents.group import EXCHANGE_TIMEOUT_S, Agents
from launch.agents.join import join
from launch.agents.member import Lost, SweepEnds
from launch.agents.rendezvous import JoinError

log = logging.getLogger("benchkit")
STATUSES: list[str] = []
"""How the points of this process's sweep ended, those of earlier attempts among them."""


class Sweeper(sweeper.Sweeper):
    """Runs the product of all overrides, as Hydra's basic sweeper does, but checks values and ends with a table."""

    def __init__(
        self,
        params: dict[str, str] | None,
        only_check: bool = False,
        resume: str | None = None,
        retry: str = "none",
        force: bool = False,
    ) -> None:
        """Takes what `hydra.sweeper` holds.

        Args:
            params: overrides that a sweep's YAML brings, which the command line's follow and may replace.
            only_check: whether the sweep ends once every point has been checked.
            resume: folder of a sweep to go on with; it and what follows are set by --resume.
            retry: which finished points are measured again; a key of resume.RETRY.
            force: whether other software, hosts or agents than the sweep began with are accepted.
        """
        self._params = params or {}
        self._only_check = only_check
        self._resume = Resume(Path(resume), retry, force) if resume else None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra before sweep()."""
        self._config = config
        self._context = hydra_context
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        if not isinstance(launcher, Launcher):
            raise ConfigError("hydra/launcher: allowed are benchkit's own, by launcher=local|slurm|…")
        self._launcher = launcher

    def sweep(self, arguments: list[str]) -> Any:
        """Runs all points; what became of them is in STATUSES."""
        configs, entries = self.compose(arguments)
        if self._only_check:
            if not self._resume:
                folder = Path(self._config.hydra.sweep.dir)
                sweep_folder.require_unused(folder, [entry.folder for entry in entries])
            return []
        with contextlib.ExitStack() as held:
            agents, agenda = self.meet(configs, entries, held)
            points = [
                Point(
                    configs[index], (agenda.folder / agenda.folders[index]).absolute(), entries[index].overrides,
                    self._launcher.num_agents, agenda.resumed_with,
                )
                for index in agenda.open
            ]  # fmt: skip
            configure_log(self._config.hydra.job_logging)
            start_fork_server(point.config.suite for point in points)
            with agents.stopping_together():
                if agents.first:
                    self.run(points, agenda, configs[0])
                    return []
                log.setLevel(logging.WARNING)
                list(self._launcher.run(points, agenda.folder, report=lambda record: None))
                agents.wait_for_end()
        return []

    def run(self, points: Sequence[Point], agenda: Agenda, config: RunConfig) -> None:
        """Agent 0's part: runs the points that are open, keeps the folder, and ends with the table."""
        from benchkit.sweep.progress import Progress  # numpy is imported from here on

        folder = agenda.folder
        tally = sweep_folder.Tally(folder, agenda.statuses, len(points), config.max_failures)
        try:
            with sweep_folder.logged(folder):
                progress = Progress(len(agenda.folders), len(agenda.statuses))
                try:
                    for status in self._launcher.run(points, folder, progress.report):
                        tally.add(status)
                except OSError as error:  # the disk: what is wrong with the command line was found before
                    raise SweepEnds(f"{folder}: {error}") from None
                finally:
                    progress.stop()
        finally:
            STATUSES.extend(tally.statuses)
            if tally.num_left:
                log.warning("%d points are left; to go on: python -m benchkit --resume %s", tally.num_left, folder)
            if config.on_end:
                sweep_folder.run_at_end(config.on_end, folder, tally.statuses, tally.num_left)

    def meet(
        self, configs: Sequence[RunConfig], entries: Sequence[Entry], held: contextlib.ExitStack
    ) -> tuple[Agents, Agenda]:
        """Meets the other agents of this start, where a launcher made several; all take agent 0's folder and points.

        Args:
            held: takes the claim on the folder.

        Raises:
            JoinError: the agents are about to run different things.
            ConfigError: the folder is in use, or holds another sweep.
        """
        started = topology.detect_launcher()
        traits = {
            "benchkit": benchkit.__version__,
            "torch": metadata.version("torch"),
            "the command line": " ".join(sys.argv[1:]),
            "the configuration": record.digest([as_dict(config) for config in configs]),
        }
        naming = str(OmegaConf.to_container(self._config.hydra.sweep, resolve=False)["dir"])  # type: ignore[index,call-overload]
        agents = join(started, traits, meeting_folder(naming), configs[0].join_timeout_s)
        if started.count > 1:
            enter(agents)
        wanted = manifest.Manifest(
            without_settings(sys.argv[1:]), made_with(started, agents, self._launcher), list(entries)
        )
        world_sizes = self.world_sizes(configs)  # agents may ask each other for it
        mine = self.prepare(wanted, world_sizes, held) if agents.first else (None, "")
        try:
            told, problem = agents.exchange(mine, EXCHANGE_TIMEOUT_S)[0]
        except Lost as lost:
            raise JoinError(f"{lost} before the first point") from None
        if problem:
            raise ConfigError(problem)
        return agents, Agenda.from_json(told)

    def prepare(
        self, wanted: manifest.Manifest, world_sizes: Sequence[int | None], held: contextlib.ExitStack
    ) -> tuple[dict[str, Any] | None, str]:
        """Agent 0's part of meet(): takes the folder; returns the agenda as JSON, and why there is none."""
        try:
            folder = Path(self._config.hydra.sweep.dir)
            agenda = prepared(folder, wanted, world_sizes, self._resume, held)
            OmegaConf.save(self._config, folder / "multirun.yaml")
        except (ConfigError, OSError) as error:
            return None, str(error)
        return agenda.to_json(), ""

    def world_sizes(self, configs: Sequence[RunConfig]) -> list[int | None]:
        """The number of ranks of each point; None where only the job that runs it will know."""
        if not (self._resume and self._launcher.runs_here and any(c.world_size == "auto" for c in configs)):
            return [None if config.world_size == "auto" else int(config.world_size) for config in configs]
        return [resolve_world_size(config, current_agents()) for config in configs]

    def compose(self, arguments: list[str]) -> tuple[list[RunConfig], list[Entry]]:
        """Composes and checks every point; raises ConfigError for the first that is wrong."""
        composer, started = PointComposer(self._context.config_loader, self._config), topology.detect_launcher()
        own = [f"{name}={value}" for name, value in self._params.items()]
        composed, configs = [], []
        for number, overrides in enumerate(composer.product([*own, *arguments])):
            composed.append(composer.point(overrides, number))
            configs.append(typed(composed[-1].config))
            self._launcher.check(configs[-1], started)
        entries = manifest.entries(
            [manifest.key_of(as_dict(config)) for config in configs],
            [point.folder for point in composed],
            [point.overrides for point in composed],
        )
        manifest.require_folders_of_their_own(entries)
        return configs, entries
