"""Launchers: run the points of a sweep in this process, or by submitit in Slurm or here.

In Slurm each point is a job, or all share one allocation. The configuration is that of
hydra-submitit-launcher, whose own launchers give up at the first job that fails, and start every
local job at once.
"""

import os
import shlex
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.utils import JobReturn
from hydra.plugins import launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from benchkit.api.keys import RunConfig
from benchkit.errors import ConfigError
from benchkit.point.point import Point, RecordCallback, run_points
from benchkit.point.point_folder import make_folder
from benchkit.record.record import FINAL
from benchkit.sweep import manifest
from benchkit.sweep.job_queues import BatchJob
from launch.agents.group import Agents
from launch.launcher_env import LaunchContext
from launch.module_path import path_options


class Launcher(launcher.Launcher):
    """A Hydra launcher that gets composed points and reports each as it ends."""

    runs_here = True  # points run in this process
    num_agents = 1  # of each job

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Do nothing; Hydra calls it after the constructor."""

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Refuse: Hydra would compose each point again."""
        raise ConfigError("hydra/sweeper: benchkit's launchers run under benchkit's sweeper only")

    def check(self, config: RunConfig, context: LaunchContext) -> None:
        """Raise ConfigError if the ranks of a point do not divide evenly over its agents."""
        if config.world_size != "auto" and int(config.world_size) % context.num_processes:
            raise ConfigError(
                f"world_size={config.world_size}: does not divide over the "
                f"{context.num_processes} agents "
                f"of {context.launcher}; allowed are multiples of {context.num_processes}, and auto"
            )

    @abstractmethod
    def run(
        self, points: Sequence[Point], folder: Path, agents: Agents, report: RecordCallback
    ) -> Iterator[str]:
        """Run points, yield the status of each as it ends, and `report` its record."""


class InProcessLauncher(Launcher):
    def __init__(self, **params: Any) -> None:
        """Accept the parameters of `hydra.launcher`, of which there are none."""

    def run(
        self, points: Sequence[Point], folder: Path, agents: Agents, report: RecordCallback
    ) -> Iterator[str]:
        return run_points(points, agents, report)


SHARED_WITH_LOCAL = (
    "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes", "name",
    "stderr_to_stdout",
)  # fmt: skip
"""Parameters of every executor of submitit; others have an executor's prefix."""


class SubmititLauncher(Launcher):
    """Submit points, wait for them, and report each; if `packed`, one job runs them all."""

    cluster: ClassVar[str] = ""
    packed: ClassVar[bool] = False
    runs_here = False

    def __init__(self, **params: Any) -> None:
        self._params: dict[str, Any] = {
            name: OmegaConf.to_container(value, resolve=True)
            if OmegaConf.is_config(value)
            else value
            for name, value in params.items()
        }
        self.num_agents = int(self._params["nodes"] * self._params["tasks_per_node"])

    def check(self, config: RunConfig, context: LaunchContext) -> None:
        if context.num_processes > 1:
            raise ConfigError(
                "launcher: what is submitted from several agents is submitted several times; "
                "start one"
            )
        for name in ("nodes", "tasks_per_node", "timeout_min", "array_parallelism"):
            if self._params.get(name, 1) < 1:
                raise ConfigError(f"hydra.launcher.{name}={self._params[name]}: allowed is >= 1")
        if config.world_size != "auto" and int(config.world_size) % self.num_agents:
            raise ConfigError(
                f"world_size={config.world_size}: does not divide over the {self.num_agents} "
                "agents of a job (hydra.launcher.nodes); "
                f"allowed are multiples of {self.num_agents}, and auto"
            )

    def run(
        self, points: Sequence[Point], folder: Path, agents: Agents, report: RecordCallback
    ) -> Iterator[str]:
        """Submit the points that no earlier job of this sweep will run, and wait for all jobs."""
        from benchkit.sweep.job_queues import (
            LocalQueue,
            SlurmQueue,
            record_signature,
            wait_for_points,
        )

        executor = self.executor()  # refuses wrong parameters before anything is touched
        make_folder(folder)
        queue_of = SlurmQueue if self.cluster == "slurm" else LocalQueue
        sweep = manifest.read(folder)
        queued = queue_of.active_jobs(sweep.jobs)
        waiting = {os.path.relpath(point.folder, folder.absolute()): point for point in points}
        followed = []
        for job in queued:
            group = [waiting.pop(name) for name in job.folders if is_in_job(waiting.get(name))]
            followed.append(group)
        rest = list(waiting.values())
        new_groups = [rest] if self.packed and rest else [[point] for point in rest]
        jobs = [self._job(group, folder) for group in new_groups]
        signatures = {point.folder: record_signature(point.folder) for point in rest}
        stale = {path: signature for path, signature in signatures.items() if signature}
        queue = queue_of(executor, jobs, queued)
        sweep.jobs = queue.submitted_jobs()
        sweep.write(folder)
        yield from wait_for_points([*followed, *new_groups], queue, report, stale)

    def _job(self, points: list[Point], folder: Path) -> BatchJob:
        return BatchJob(
            points,
            folder.absolute(),
            signal_delay_s=self._params.get("signal_delay_s", 0),
            max_num_timeout=self._params.get("max_num_timeout", 0),
        )

    def executor(self) -> Any:
        """Return submitit's executor; raise ConfigError for a wrong parameter, or without Slurm."""
        import submitit

        folder, params = self._executor_params()
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster=self.cluster, **self._python())
            executor.update_parameters(**params)
        except RuntimeError as error:
            raise ConfigError(
                f"launcher={self.cluster}: {error} "
                "Allowed where sbatch and srun are; elsewhere submitit_local"
            ) from None
        except (ValueError, TypeError, NameError) as error:
            raise ConfigError(f"hydra.launcher: {' '.join(str(error).split())}") from None
        return executor

    def _python(self) -> dict[str, str]:
        command = shlex.join([sys.executable, *path_options()])
        return {f"{self.cluster}_python": self._params.get("python") or command}

    def _executor_params(self) -> tuple[str, dict[str, Any]]:
        """Return submitit's folder, and its parameters by submitit's names."""
        params = {name: value for name, value in self._params.items() if value is not None}
        folder = params.pop("submitit_folder")
        for name in ("max_num_timeout", "python"):
            params.pop(name, None)
        extra = params.pop("additional_parameters", {})
        if self.cluster == "slurm":
            # The other agents go on when one has failed.
            srun_args = ["--kill-on-bad-exit=0"]
            if "cpus_per_task" in params:  # srun does not take it over from sbatch
                srun_args.append(f"--cpus-per-task={params['cpus_per_task']}")
            params["srun_args"] = [*srun_args, *params.get("srun_args", ())]
            params["additional_parameters"] = {
                name: value for name, value in extra.items() if value not in (None, False)
            }
        prefix = f"{self.cluster}_"
        return folder, {
            name if name in SHARED_WITH_LOCAL else prefix + name: value
            for name, value in params.items()
        }


def is_in_job(point: Point | None) -> bool:
    """Return whether an earlier job will still run this point; None is no open point."""
    if point is None:
        return False
    record = point.record()
    return record is None or record.status not in FINAL
