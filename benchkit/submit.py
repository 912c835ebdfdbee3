"""Hydra's launchers that hand the points of a sweep to submitit: on Slurm, all in one allocation, or on this machine.

The configuration is hydra-submitit-launcher's; its own launchers give up at the first job that fails, and start
every local job at once.
"""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins import launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from benchkit.composition import typed
from benchkit.errors import ConfigError
from benchkit.job import Job, Point
from launch import topology

SHARED_WITH_LOCAL = (
    "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes", "name", "stderr_to_stdout",
)  # fmt: skip
"""submitit's parameters that every kind of executor takes; the others carry their executor's name."""


class Launcher(launcher.Launcher):
    """Submits, waits, and tells of each point as it ends."""

    cluster: ClassVar[str] = ""
    packed: ClassVar[bool] = False

    def __init__(self, **params: Any) -> None:
        self._params: dict[str, Any] = {
            name: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
            for name, value in params.items()
        }

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Called by Hydra before launch()."""
        self._config = config
        self._loader = hydra_context.config_loader

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Submits all points and blocks until they have ended; one JobReturn with a status for each."""
        if topology.started().count > 1:
            raise ConfigError("launcher: what is submitted from several agents is submitted several times; start one")
        points = [self.point(list(overrides), index) for index, overrides in enumerate(job_overrides, initial_job_idx)]
        self.check(points)
        from benchkit.follow import follow
        from benchkit.queues import Local, Slurm

        groups = [points] if self.packed else [[point] for point in points]
        folder = Path(self._config.hydra.sweep.dir).absolute()
        warning_s, again = self._params.get("signal_delay_s", 0), self._params.get("max_num_timeout", 0)
        jobs = [Job(group, folder, warning_s, again) for group in groups]
        queue = (Slurm if self.cluster == "slurm" else Local)(self.executor(), jobs)
        return [ended(status) for status in follow(groups, queue)]

    def point(self, overrides: list[str], number: int) -> Point:
        """One point, composed, with its folder below the sweep's."""
        composed = self._loader.load_sweep_config(self._config, overrides)
        with read_write(composed), open_dict(composed):
            composed.hydra.job.num = number
            composed.hydra.job.id = str(number)
            folder = Path(composed.hydra.sweep.dir).absolute() / str(composed.hydra.sweep.subdir)
            given = list(composed.hydra.overrides.task)
            own = copy.copy(composed)
            del own["hydra"]
        return Point(typed(own), folder, given, self.agents_per_job())

    def agents_per_job(self) -> int:
        return int(self._params["nodes"] * self._params["tasks_per_node"])

    def check(self, points: Sequence[Point]) -> None:
        """Raises ConfigError where ranks do not divide over the agents that a job will have."""
        for name in ("nodes", "tasks_per_node", "timeout_min", "array_parallelism"):
            if self._params.get(name, 1) < 1:
                raise ConfigError(f"hydra.launcher.{name}={self._params[name]}: allowed is >= 1")
        agents = self.agents_per_job()
        for point in points:
            if point.config.world_size != "auto" and int(point.config.world_size) % agents:
                raise ConfigError(
                    f"world_size={point.config.world_size}: does not divide over the {agents} agents of a job "
                    f"(hydra.launcher.nodes); allowed are multiples of {agents}, and auto"
                )

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


def ended(status: str) -> JobReturn:
    """A point's status as Hydra hands it on."""
    job = JobReturn()
    job.return_value, job.status = status, JobStatus.COMPLETED
    return job
