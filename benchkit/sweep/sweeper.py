"""Hydra's sweeper: checks all points before the first one runs, and prints them at the end."""

import contextlib
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import configure_log
from hydra.plugins import sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from benchkit.api.keys import RunConfig, as_dict
from benchkit.config import hydra_internals
from benchkit.config.compose import PointComposer, interpolated
from benchkit.config.hydra_internals import SweepTask
from benchkit.errors import ConfigError
from benchkit.point.point import Point
from benchkit.point.ranks import preload_fork_server
from benchkit.secrets import mask_words
from benchkit.sweep import manifest, sweep_folder
from benchkit.sweep.agenda import Agenda
from benchkit.sweep.agreement import Proposal
from benchkit.sweep.forecast import forecast_points
from benchkit.sweep.job_queues import record_signature
from benchkit.sweep.launchers import Launcher
from benchkit.sweep.manifest import PointEntry
from benchkit.sweep.resume import Resume, settled_status
from benchkit.sweep.sweep_folder import report_on
from benchkit.sweep.tally import Tally
from launch.agents.group import Agents
from launch.agents.messages import SweepEnds
from launch.launcher_env import (
    allocation_remark,
    detect_launcher,
    require_first_start,
    require_launcher,
)
from launch.signals import ignore_signals

log = logging.getLogger("benchkit")


def require_effect(arguments: Sequence[str], configs: Sequence[RunConfig]) -> None:
    """Raise ConfigError for a typed key that changes nothing at any point."""
    for argument in arguments:
        key = argument.partition("=")[0].lstrip("+")
        if all(config.idle_keys().get(key) for config in configs):
            raise ConfigError(f"{argument}: no effect, since {configs[0].idle_keys()[key]}")


class PointSweeper(sweeper.Sweeper):
    """Run the product of all overrides, as Hydra's basic sweeper does.

    Unlike that, it checks the values of every point first, and prints their table at the end.
    """

    def __init__(
        self,
        params: dict[str, str] | None,
        only_check: bool = False,
        dry_run: bool | str = False,
        resume: str | None = None,
        retry: str = "none",
        force: bool = False,
    ) -> None:
        """Take the parameters of `hydra.sweeper`; --resume sets the last three.

        Args:
            params: overrides of a sweep's YAML; the command line's follow and may replace them.
            only_check: end once every point has been checked.
            dry_run: end with a forecast of every point; a path gets the total, too.
            resume: folder of a sweep to resume, or to begin.
            retry: which finished points are measured again; a key of resume.RETRY.
            force: accept other software, hosts or agents than at the sweep's start.
        """
        self._params = params or {}
        self._only_check = only_check
        self._dry_run = dry_run
        self._resume = Resume(Path(resume), retry, force) if resume else None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        assert isinstance(task_function, SweepTask)
        self._task = task_function
        self._config = config
        self._context = hydra_context
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        if not isinstance(launcher, Launcher):
            raise ConfigError(
                "hydra/launcher: allowed are benchkit's own, by launcher=local|slurm|…"
            )
        self._launcher = launcher

    def sweep(self, arguments: list[str]) -> Any:
        """Run all points; their statuses are in the task afterwards."""
        if not (self._only_check or self._dry_run):
            require_launcher()
            if not self._resume:
                require_first_start()
        configs, entries, typed = self.compose(arguments)
        if self._only_check and not self._resume:
            folder = Path(self._config.hydra.sweep.dir)
            sweep_folder.require_unused(folder, [entry.folder for entry in entries])
        self._task.configs, self._task.runs_here = configs, self._launcher.runs_here
        if self._only_check:
            return []
        if self._dry_run:
            self.forecast(configs, entries)
            return []
        if self._launcher.runs_here and (remark := allocation_remark()):
            print(f"benchkit: {remark}", file=sys.stderr)
        proposal = Proposal(self._config, self._launcher, self._resume, configs, entries)
        with contextlib.ExitStack() as exit_stack:
            agents, agenda = proposal.agree(exit_stack)
            points = agenda.open_points(configs, entries, self._launcher.num_agents, typed)
            configure_log(self._config.hydra.job_logging)
            preload_fork_server(point.config for point in points)
            with agents.stop_together():
                if agents.first:
                    self.run(points, agenda, agents, configs[0])
                    return []
                log.setLevel(logging.WARNING)
                list(self._launcher.run(points, agenda.folder, agents, lambda record: None))
                agents.wait_for_end()
        return []

    def compose(
        self, arguments: list[str]
    ) -> tuple[list[RunConfig], list[PointEntry], list[dict[str, str]]]:
        """Compose and check every point; return an item per run, in measuring order.

        The last items are Composed.interpolations.
        """
        loader = self._context.config_loader
        context = detect_launcher()
        if not isinstance(self._params, Mapping):
            raise ConfigError(f"hydra.sweeper.params={self._params}: allowed are keys with values")
        sweeper: Any = OmegaConf.to_container(self._config.hydra.sweeper, resolve=False)
        param_overrides = [f"{name}={value}" for name, value in self._params.items()]
        raw_params = dict(interpolated(sweeper["params"]))
        raw_lines = [
            f"{name}={raw_params.get(name, value)}" for name, value in self._params.items()
        ]
        typed = hydra_internals.raw_overrides_by_line(loader, param_overrides, raw_lines)
        composer = PointComposer(loader, self._config, typed)
        composed = []
        for number, overrides in enumerate(
            hydra_internals.expand_sweep(loader, [*param_overrides, *arguments])
        ):
            point = composer.point(overrides, number)
            self._launcher.check(point.config, context)
            composed.append(point)
        if not composed:
            raise ConfigError("nothing to sweep over: a glob(…) finds no option")
        configs = [point.config for point in composed]
        if not self._resume:
            require_effect(arguments, configs)
        points = manifest.entries(
            [manifest.key_of(as_dict(config)) for config in configs],
            [point.folder for point in composed],
            [mask_words(point.overrides) for point in composed],
        )
        manifest.require_one_secret(points)
        repeats = [config.repeat for config in configs]
        runs = manifest.order_runs(points, repeats, configs[0].seed)
        entries = [entry for _, entry in runs]
        manifest.require_folders_of_their_own(entries)
        positions = [position for position, _ in runs]
        texts = [composed[position].interpolations for position in positions]
        return [configs[position] for position in positions], entries, texts

    def forecast(self, configs: Sequence[RunConfig], entries: Sequence[PointEntry]) -> None:
        """Print a forecast of the open points; the task gets the statuses of all."""
        from benchkit.sweep import dry_run

        if detect_launcher().num_processes > 1:
            allowed = "without torchrun, mpirun or srun, which would start several agents"
            raise ConfigError(f"--dry-run: allowed {allowed}")
        folder = Path(self._config.hydra.sweep.dir)
        agenda = dry_run.agenda(folder, entries, self._resume)
        points = agenda.open_points(configs, entries, self._launcher.num_agents)
        point_forecasts = dry_run.forecasts(points, folder.parent, self._launcher.runs_here)
        total = dry_run.total_of(point_forecasts, agenda.statuses)
        print("\n".join(dry_run.format_forecasts(point_forecasts, len(agenda.statuses), total)))
        if isinstance(self._dry_run, str):
            total.write(Path(self._dry_run))
        self._task.statuses.extend(total.statuses)

    def run(
        self,
        points: Sequence[Point],
        agenda: Agenda,
        agents: Agents,
        config: RunConfig,
    ) -> None:
        """Run the open points on agent 0, write the sweep's folder, and print it at the end."""
        from benchkit.sweep.progress import SweepProgress  # numpy is imported from here on

        folder = agenda.folder
        expected_s = forecast_points(points, folder.parent, self._launcher.runs_here)
        tally = Tally(folder, agenda.statuses, expected_s, config.max_failures)
        signatures = {point.folder: record_signature(point.folder) for point in points}
        with sweep_folder.log_to_folder(folder):
            names = [" ".join(point.overrides) for point in points]
            shown_names = names if self._launcher.runs_here else ()
            progress = SweepProgress(len(agenda.folders), len(agenda.statuses), shown_names)
            progress.expect(tally.num_left, tally.seconds_left())
            try:
                for status in self._launcher.run(points, folder, agents, progress.report):
                    tally.add(status)
                    progress.expect(tally.num_left, tally.seconds_left())
            except OSError as error:  # of the disk: the command line is checked already
                raise SweepEnds(f"{folder}: {error}") from None
            except KeyboardInterrupt:
                ignore_signals()  # a terminal that closes sends several; what follows is short
                raise
            finally:
                progress.stop()
                self._task.show(folder)
                self._task.statuses.extend(tally.statuses)
                # Not from the tally: a signal may have come between a record and its count.
                num_left = sum(
                    not settled_status(point_folder) or record_signature(point_folder) == signature
                    for point_folder, signature in signatures.items()
                )
                if num_left:
                    log.warning(
                        "%d %s left; to go on: python -m benchkit --resume %s",
                        num_left,
                        "point is" if num_left == 1 else "points are",
                        folder,
                    )
                self._task.statuses.extend(report_on(folder, config.report))
                if config.on_end:
                    sweep_folder.run_at_end(config.on_end, folder, tally.statuses, num_left)
