"""How the points of a sweep are run: the base of benchkit's launchers, and the one in-process."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn
from hydra.plugins import launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.point.point import Point, Report
from benchkit.point.run import run_points
from launch.agents.group import Agents
from launch.topology import LaunchContext


class Launcher(launcher.Launcher):
    """A Hydra launcher that is given composed points and reports each as it ends."""

    runs_here = True
    """Whether points run in this process."""
    num_agents = 1
    """Agents that each point's job has, where points run in jobs."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Does nothing; Hydra calls it after the constructor."""

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Refuses Hydra's own way to run points, which composes each of them again."""
        raise ConfigError("hydra/sweeper: benchkit's launchers run under benchkit's sweeper only")

    def check(self, config: RunConfig, started: LaunchContext) -> None:
        """Raises ConfigError if the ranks of a point cannot be divided evenly over its agents."""
        if config.world_size != "auto" and int(config.world_size) % started.count:
            raise ConfigError(
                f"world_size={config.world_size}: does not divide over the {started.count} agents "
                f"of {started.by}; allowed are multiples of {started.count}, and auto"
            )

    @abstractmethod
    def run(
        self, points: Sequence[Point], folder: Path, agents: Agents, report: Report
    ) -> Iterator[str]:
        """Runs points and yields the status of each as it ends.

        Args:
            points: composed and checked.
            folder: of the sweep.
            agents: of this start, in whose processes points run where `runs_here`.
            report: takes the record of each point that has ended.
        """


class InPlace(Launcher):
    """Runs one point after another in this process."""

    def __init__(self, **params: Any) -> None:
        """Accepts the parameters of `hydra.launcher`, of which there are none."""

    def run(
        self, points: Sequence[Point], folder: Path, agents: Agents, report: Report
    ) -> Iterator[str]:
        return run_points(points, agents, report)
