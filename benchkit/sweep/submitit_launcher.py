"""Hydra's launchers that hand the points of a sweep to submitit: on Slurm, all in one allocation, or on this machine.

The configuration is hydra-submitit-launcher's; its own launchers give up at the first job that fails, and start
every local job at once.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import OmegaConf

from benchkit import record
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.point.point import Point, Report
from benchkit.sweep import manifest
from benchkit.sweep.launchers import Launcher
from benchkit.sweep.slurm_job import Job
from launch.agents.member import SweepEnds
from launch.topology import LaunchContext

SHARED_WITH_LOCAL = (
    "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes", "name", "stderr_to_stdout",
)  # fmt: skip
"""submitit's parameters that every kind of executor takes; the others carry their executor's name."""


class Submitting(Launcher):
    """Submits, waits, and tells of each point as it ends."""

    cluster: ClassVar[str] = ""
    packed: ClassVar[bool] = False
    runs_here = False

    def __init__(self, **params: Any) -> None:
        self._params: dict[str, Any] = {
            name: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
            for name, value in params.items()
        }
        self.num_agents = int(self._params["nodes"] * self._params["tasks_per_node"])

    def check(self, config: RunConfig, started: LaunchContext) -> None:
        """Raises ConfigError where ranks do not divide over the agents that a job will have."""
        if started.count > 1:
            raise ConfigError("launcher: what is submitted from several agents is submitted several times; start one")
        for name in ("nodes", "tasks_per_node", "timeout_min", "array_parallelism"):
            if self._params.get(name, 1) < 1:
                raise ConfigError(f"hydra.launcher.{name}={self._params[name]}: allowed is >= 1")
        if config.world_size != "auto" and int(config.world_size) % self.num_agents:
            raise ConfigError(
                f"world_size={config.world_size}: does not divide over the {self.num_agents} agents of a job "
                f"(hydra.launcher.nodes); allowed are multiples of {self.num_agents}, and auto"
            )

    def run(self, points: Sequence[Point], folder: Path, report: Report) -> Iterator[str]:
        """Submits the points that no job of this sweep is still to run, and follows all."""
        from benchkit.sweep.schedulers import Local, Slurm
        from benchkit.sweep.wait import follow, record_signature

        executor = self.executor()  # refuses what is wrong before anything is touched
        if problem := record.shortage(folder):
            raise SweepEnds(problem)
        queue_of = Slurm if self.cluster == "slurm" else Local
        sweep = manifest.read(folder)
        queued = queue_of.still_there(sweep.jobs)
        waiting = {os.path.relpath(point.folder, folder.absolute()): point for point in points}
        followed = [[waiting.pop(name) for name in job.folders if in_job(waiting.get(name))] for job in queued]
        rest = list(waiting.values())
        new_groups = [rest] if self.packed and rest else [[point] for point in rest]
        warning_s, again = self._params.get("signal_delay_s", 0), self._params.get("max_num_timeout", 0)
        jobs = [Job(group, folder.absolute(), warning_s, again) for group in new_groups]
        stale = {point.folder: signature for point in rest if (signature := record_signature(point.folder))}
        queue = queue_of(executor, jobs, queued)
        sweep.jobs = queue.submitted()
        sweep.write(folder)
        yield from follow([*followed, *new_groups], queue, report, stale)

    def executor(self) -> Any:
        """submitit's executor with the parameters of hydra.launcher; raises ConfigError where one is wrong."""
        import submitit

        params = {name: value for name, value in self._params.items() if value is not None}
        folder = params.pop("submitit_folder")
        params.pop("max_num_timeout", None)
        extra = params.pop("additional_parameters", {})
        if self.cluster == "slurm":
            bound = [f"--cpus-per-task={params['cpus_per_task']}"] if "cpus_per_task" in params else []
            params["srun_args"] = ["--kill-on-bad-exit=0", *bound]  # agents that are left go on; srun forgets sbatch's
            params["additional_parameters"] = {
                name: value for name, value in extra.items() if value not in (None, False)
            }
        try:
            executor = submitit.AutoExecutor(folder=folder, cluster=self.cluster)
            prefix = f"{self.cluster}_"
            executor.update_parameters(
                **{name if name in SHARED_WITH_LOCAL else prefix + name: value for name, value in params.items()}
            )
        except RuntimeError as error:
            raise ConfigError(
                f"launcher={self.cluster}: {error} Allowed where sbatch and srun are; elsewhere submitit_local"
            ) from None
        except (ValueError, TypeError, NameError) as error:
            raise ConfigError(f"hydra.launcher: {' '.join(str(error).split())}") from None
        return executor


def in_job(point: Point | None) -> bool:
    """Whether a job that is still there has this point of ours before it."""
    return point is not None and (record.read_in(point.folder) or {}).get("status") not in record.FINAL
